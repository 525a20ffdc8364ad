"""One sequence as the log tells it, and its times. Knows no step.

    TTFT        first token - received              (queueing included)
    TPOT        (finished - first token) / (output tokens - 1), only for requests that ended by stop or length
    E2E         finished - received = waits + prefill + decode + stalled + preempted
    normalised  E2E / output tokens                 (Yu et al., Orca, OSDI'22; NTPOT of other tools)
    queue       first scheduled - received
Invariant: the parts of a finished life sum to its E2E.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduler.core.events import (
    Event,
    FirstToken,
    Parts,
    RequestFinished,
    RequestPreempted,
    RequestQueued,
    RequestScheduled,
    StepCompleted,
)
from scheduler.core.request import FinishReason

FINISHED_WELL = (FinishReason.STOP, FinishReason.LENGTH)


@dataclass(slots=True)
class Life:
    """One sequence as the log tells it; ns on the monotonic clock."""

    boot: int
    number: int
    id: str
    received_at: int
    tenant: str
    kind: str
    priority: int = 0
    queued_at: int | None = None
    scheduled_at: int | None = None
    first_token_at: int | None = None
    finished_at: int | None = None
    reason: FinishReason | None = None
    detail: str | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    preemptions: int = 0
    parts: Parts | None = None
    spans: list[tuple[int, int]] = field(default_factory=list)  # when it was waiting or preempted, closed
    outside_since: int | None = None

    @property
    def queue(self) -> int | None:
        """First admission - received."""
        return None if self.scheduled_at is None else self.scheduled_at - self.received_at

    @property
    def ttft(self) -> int | None:
        """First token - received."""
        return None if self.first_token_at is None else self.first_token_at - self.received_at

    @property
    def e2e(self) -> int | None:
        """Finished - received."""
        return None if self.finished_at is None else self.finished_at - self.received_at

    @property
    def tpot(self) -> float | None:
        """Mean time per output token after the first; None below two tokens or unless it ended by stop or length."""
        if self.finished_at is None or self.first_token_at is None or self.reason not in FINISHED_WELL:
            return None
        return (self.finished_at - self.first_token_at) / (self.output_tokens - 1) if self.output_tokens > 1 else None

    @property
    def normalised(self) -> float | None:
        """E2E / output tokens; None without a token or unless it ended by stop or length."""
        if self.e2e is None or self.reason not in FINISHED_WELL or not self.output_tokens:
            return None
        return self.e2e / self.output_tokens


def lives(events: Iterable[Event]) -> dict[tuple[int, str], Life]:
    """Every sequence of the log by (boot, id), in order of first mention."""
    found: dict[tuple[int, str], Life] = {}
    by_number: dict[tuple[int, int], Life] = {}
    for event in events:
        if isinstance(event, StepCompleted):  # asked first: most of a log is steps
            continue
        if isinstance(event, RequestQueued):
            life = Life(event.boot, event.seq, event.id, event.received_at, event.tenant, event.kind, event.priority)
            life.queued_at, life.prompt_tokens, life.outside_since = event.at, event.prompt_tokens, event.received_at
            found[event.boot, event.id] = by_number[event.boot, event.seq] = life
        elif isinstance(event, RequestFinished):
            finished = found.get((event.boot, event.id))
            if finished is None:  # rejected before it was queued
                received = event.at - event.parts.total
                finished = found[event.boot, event.id] = Life(event.boot, event.number, event.id, received, "", "")
                finished.outside_since = received
            _finish(finished, event)
        elif isinstance(event, (RequestScheduled, RequestPreempted, FirstToken)):
            _move(by_number[event.boot, event.number], event)
    return found


def _move(life: Life, event: RequestScheduled | RequestPreempted | FirstToken) -> None:
    if isinstance(event, RequestScheduled):
        if life.scheduled_at is None:
            life.scheduled_at = event.at
        if life.outside_since is not None:
            life.spans.append((life.outside_since, event.at))
        life.outside_since = None
    elif isinstance(event, RequestPreempted):
        life.outside_since = event.at
        life.preemptions += 1
    elif life.first_token_at is None:
        life.first_token_at = event.at


def _finish(life: Life, event: RequestFinished) -> None:
    life.finished_at, life.reason, life.detail, life.parts = event.at, event.reason, event.detail, event.parts
    life.prompt_tokens, life.cached_tokens = event.prompt_tokens, event.cached_tokens
    life.output_tokens, life.preemptions = event.output_tokens, event.preemptions
    if life.outside_since is not None:
        life.spans.append((life.outside_since, event.at))
        life.outside_since = None
