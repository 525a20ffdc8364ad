"""Overload: refuse early what the engine would refuse anyway, before it costs a row, a stream or a message.

The engine's word is the only one that counts; this repeats its last one. `pressure` is what a newcomer meets, as of the last
message; sequences whose verdict is still out are added to it, so that a burst within one step does not pass as if each
were alone. Whatever passes here is judged by the engine itself.
Invariant: what is refused here would have been refused by the engine as it last spoke of itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.serving.in_flight import InFlight
from scheduler.engine.messages import Pressure

MS = 1_000_000
LONGEST_S = 60


class Overload:
    """`settings()`: the scheduler's, in effect."""

    def __init__(
        self, in_flight: InFlight, settings: Callable[[], Mapping[str, Any]], clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self.pressure: Pressure | None = None
        self._in_flight = in_flight
        self._settings = settings
        self._clock = clock

    @property
    def full(self) -> bool:
        """The queue holds as many as it may: nothing of a newcomer needs to be read."""
        most: int = self._settings().get("max_num_queued_reqs", 0)  # no settings before the first engine is ready
        return 0 < most <= self._in_flight.waiting

    def misses(self, received_at: int, deadline_ms: float | None, prompt_tokens: Sequence[int]) -> bool:
        """Would a POST with prompts of these lengths miss its TTFT bound? Never, unless the engine sheds."""
        if self.pressure is None:
            return False
        bound_ms = self._settings()["ttft_slo_ms"] if deadline_ms is None else deadline_ms
        flight = self._in_flight
        before, places = flight.undecided_tokens, flight.undecided
        due_at, now = received_at + round(bound_ms * MS), self._clock()
        for count in prompt_tokens:
            if self.pressure.misses(due_at, now, count, before, places):
                return True
            before, places = before + count, places + 1
        return False

    @property
    def retry_after_s(self) -> int:
        """Whole seconds, 1 to 60, after which the queue as it is will have drained, at the rate at which it drains."""
        wait_ms = self._in_flight.place().start_ms
        return 1 if wait_ms is None else min(LONGEST_S, max(1, math.ceil(wait_ms / 1000)))
