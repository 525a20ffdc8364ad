"""Drain: how fast the queue empties, measured over committed steps; and Pressure, what that means for a newcomer.

Two things hold a queue back, and each has a rate of its own:
  prefill   prompt tokens a step took out of the queue (computed, or found in the cache), over the steps that left prefill
            work undone: what the engine can do when there is enough to do
  places    running requests that ended, over the steps that left somebody waiting, for whatever reason
A rate is a quotient of two sums that fade with the time observed, so a step counts by its length. Nothing is looked up a
request: what waits is the lifecycle's running sums, so an estimate is O(1) however long the queue is.

The estimate is honest about sums and blind to order: it says when a newcomer would have its first token if all who wait
now came before it. A policy that lets it overtake makes it early; one that lets others overtake it makes it late.
Invariant: what was not measured is 0 and never a reason to refuse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scheduler.core.events import RequestScheduled
from scheduler.core.plan import StepPlan
from scheduler.core.request import WaitReason

HORIZON_NS = 5_000_000_000
UNBOUND = WaitReason.STEP
SPENT = (WaitReason.TOKEN_BUDGET, WaitReason.PREFILL_CAP)
SLOTS_HELP = (WaitReason.STEP, *SPENT, WaitReason.SLOTS)  # bound by these, a free slot lets somebody in


@dataclass(frozen=True, slots=True)
class Pressure:
    """What a newcomer meets. tokens: prompt tokens before its own; places: running ones that must end before it may begin.

    token_ns, place_ns: time for each of those; step_ns: how long a step is. `busy`: there is work at all. `safety`: factor
    on the estimate.
    """

    busy: bool
    tokens: int
    token_ns: float
    places: int
    place_ns: float
    step_ns: float
    safety: float

    def first_token_ns(self, prompt_tokens: int, tokens: int = 0, places: int = 0) -> float:
        """Until the first token of a newcomer; `tokens` and `places`: others that came since, not yet counted in here."""
        own = self.token_ns * prompt_tokens
        computing = self.token_ns * (self.tokens + tokens)
        before = max(0, self.places + places)
        waiting = self.place_ns * (before + math.sqrt(before))  # one deviation more: places come free at random
        return max(computing, waiting) + own + self.step_ns

    def misses(self, due_at: int, now: int, prompt_tokens: int, tokens: int = 0, places: int = 0) -> bool:
        """Would a newcomer get its first token after `due_at`? An idle engine takes everything."""
        if not self.busy and not tokens:
            return False
        return now + self.safety * self.first_token_ns(prompt_tokens, tokens, places) > due_at


class Rate:
    """Time for each of something: two fading sums."""

    __slots__ = ("_ns", "_count")

    def __init__(self) -> None:
        self._ns = 0.0
        self._count = 0.0

    def add(self, ns: int, count: int) -> None:
        """`count` of them within `ns`."""
        keep = HORIZON_NS / (HORIZON_NS + ns)
        self._ns, self._count = self._ns * keep + ns, self._count * keep + count

    @property
    def each_ns(self) -> float:
        """0 before anything was observed; while none has come, at least what has passed."""
        return self._ns / max(self._count, 1.0)


class Drain:
    """The measurements; `step` after each commit."""

    def __init__(self) -> None:
        self._prefill = Rate()
        self._places = Rate()
        self._steps = Rate()
        self._unfinished = 0
        self._slots_help = True

    def step(self, plan: StepPlan, now: int, running: int, unfinished: int) -> None:
        """A step ended `now`; `running`: who runs after it; `unfinished`: tokens that prefills which began still lack."""
        took = now - plan.started_at
        self._unfinished = unfinished
        self._slots_help = plan.binding in SLOTS_HELP
        self._steps.add(took, 1)
        if plan.binding is not UNBOUND:
            self._places.add(took, plan.running - running)
        if plan.chunks and (plan.binding in SPENT or not all([chunk.last for chunk in plan.chunks])):
            cached = sum([event.cached_tokens for event in plan.events if isinstance(event, RequestScheduled)])
            self._prefill.add(took, plan.prefill_tokens + cached)

    def pressure(self, waiting: int, waiting_tokens: int, running: int, free_slots: int, safety: float) -> Pressure:
        """What a newcomer meets now. Free slots are of no use while KV blocks, not slots, hold the queue back."""
        places = waiting + 1 - (free_slots if self._slots_help else 0)
        return Pressure(
            busy=waiting > 0 or running > 0,
            tokens=waiting_tokens + self._unfinished,
            token_ns=self._prefill.each_ns,
            places=places,
            place_ns=self._places.each_ns,
            step_ns=self._steps.each_ns,
            safety=safety,
        )
