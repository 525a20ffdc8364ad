"""When each token came, by the steps that gave it. Knows steps, no request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from scheduler.core.events import Event, StepCompleted


def token_times(events: Iterable[Event]) -> dict[tuple[int, int], list[int]]:
    """(boot, number) → the end of each step that gave it a token."""
    times: dict[tuple[int, int], list[int]] = {}
    steps = (event for event in events if isinstance(event, StepCompleted))
    for step in steps:
        emitted = [row.request for row in step.slices if row.emitted]
        for number in emitted:
            times.setdefault((step.boot, number), []).append(step.ended_at)
    return times


def inter_token(times: Mapping[tuple[int, int], Sequence[int]]) -> list[int]:
    """ITL: every gap between successive tokens, ns, over all requests; over tokens, not over means of requests."""
    return [later - earlier for stamps in times.values() for earlier, later in pairwise(stamps)]
