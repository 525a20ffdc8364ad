"""Budget: how many tokens a step may hold so that it ends in time. Knows what a step costs, and no request, queue or clock.

  off      no ITL target: the budget is the setting's
  target   the largest T with cost(decodes, context, a prefill of T - decodes) ≤ target, found by bisection: the cost model
           inverted, as Sarathi-Serve does once and for all (Agrawal et al., OSDI'24), here anew in every step
Decodes are never held back: they are the budget where they alone take longer. Nor is prefill ever held back for good: FLOOR
tokens of it are granted whatever they cost. The answer stands until the decodes change or their context has grown by
GRAIN tokens each, which are charged in advance; so a steady step pays for a look at it.
Invariant: beyond the floor, no answer lets a step pass the target, by the cost that was given (or learned).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from scheduler.core.learned_cost import LearnedCost
from scheduler.core.plan import StepPlan

FLOOR = 16
GRAIN = 64


class StepCost(Protocol):
    """What a step takes."""

    def step_ns(self, decodes: int, context: int, chunks: Sequence[tuple[int, int]]) -> float:
        """Nanoseconds of a step; never less for more.

        decodes, context: sequences that decode, and tokens in their KV caches; chunks: (tokens, tokens computed before)
        of each prefill slice.
        """


class Budget:
    """Answers for one engine. `cost`: what a step takes, where that is known; else it is learned from committed steps."""

    __slots__ = ("target_ns", "_cost", "_learned", "_key", "_tokens")

    def __init__(self, cost: StepCost | None = None) -> None:
        self.target_ns = 0
        learned = LearnedCost()
        self._cost: StepCost = learned if cost is None else cost
        self._learned = learned if cost is None else None
        self._key: tuple[int, ...] = ()
        self._tokens = 0

    def aim(self, target_ms: float) -> None:
        """Steps are to take at most so long from now on; 0: as long as they like."""
        self.target_ns = round(target_ms * 1_000_000)
        self._key = ()

    def of(self, most: int, decodes: int, context: int) -> int:
        """Token budget of a step of these decodes, at most `most`; its prefills are taken to be fresh."""
        if not self.target_ns:
            return most
        grain = GRAIN * (decodes or 1)
        key = (most, decodes, context // grain, self._learned.version if self._learned else 0)
        if key != self._key:
            self._key = key
            ahead = (context // grain + 1) * grain if decodes else 0
            self._tokens = decodes + self.fit(decodes, ahead, (), 0, max(0, most - decodes))
        return self._tokens

    def fit(self, decodes: int, context: int, chunks: Sequence[tuple[int, int]], prior: int, most: int) -> int:
        """Most tokens, up to `most`, of a prefill slice of whose prompt `prior` tokens are computed, beside `chunks`."""
        if not self.target_ns or (chunks and not prior and not any([before for _, before in chunks])):
            return most  # slices of fresh prompts cost no more than the one that `of` has answered for
        low, high = (0 if chunks else min(FLOOR, most)), most
        if low == high or self._within(decodes, context, chunks, prior, high):
            return most
        while high - low > 1:
            middle = (low + high) // 2
            if self._within(decodes, context, chunks, prior, middle):
                low = middle
            else:
                high = middle
        return low

    def _within(self, decodes: int, context: int, chunks: Sequence[tuple[int, int]], prior: int, tokens: int) -> bool:
        return self._cost.step_ns(decodes, context, (*chunks, (tokens, prior))) <= self.target_ns

    def observe(self, plan: StepPlan, took_ns: int) -> None:
        """A step was committed, while there is a target; what it took is learned if nobody said."""
        if self._learned:
            self._learned.observe(len(plan.decodes), plan.context, plan.prefill_tokens, took_ns)
