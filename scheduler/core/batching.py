"""COMPOSE: how many tokens of whom go into a step. Knows no order, no blocks and no clock; answers questions only.

Every decode has one token of the budget before this module is asked. The rules for the rest:
  chunking on            a prefill takes what is left, at most the cap: `long_prefill_token_threshold`, and with
                         `long_prefill_token_threshold_adaptive` at least a fair share, budget // (running + waiting). A
                         request that is alone in the engine is not capped; a threshold of 0 is no cap (all as in vLLM)
  chunking off, static, merge   a prompt goes whole or not at all
  longer than a budget   a prompt that no step could hold whole is served all the same: it begins in a step that
                         prefills nobody else and goes in pieces, each of them all that the decodes leave
  static                 who joins, joins while the batch is built, in one step; nobody joins an open batch
  merge                  a step prefills or decodes, never both. While a batch decodes, newcomers wait until they are
                         SERVED_RATIO of it, or it has decoded MOST_DECODES steps since the last prefill; then a step
                         prefills them, while the decodes stand still, and they join the batch. Between two such steps the
                         batch decodes at least once (TGI's waiting_served_ratio and max_waiting_tokens)
The cap keeps nobody out: whoever is admitted gets a token, and a prefill that the cap cuts is in the step, not stalled.
Invariant: a piece is never larger than what is left, nor than what is missing.
"""

from __future__ import annotations

from scheduler.core.limits import Limits

SERVED_RATIO = 0.3
MOST_DECODES = 20


class Portions:
    """The rules for one step, of so large a `budget`. `cap`: most tokens of one prefill, 0: no cap."""

    __slots__ = ("budget", "whole", "cap")

    def __init__(self, budget: int, whole: bool, cap: int) -> None:
        self.budget = budget
        self.whole = whole
        self.cap = cap

    def first_piece(self, missing: int, left: int, alone: bool) -> int:
        """Tokens for a request that would join; 0: not in this step. `alone`: the step prefills nobody else."""
        if self.whole and missing > left and not (alone and missing > self.budget):
            return 0
        return self.next_piece(missing, left)

    def next_piece(self, missing: int, left: int) -> int:
        """Tokens for a request that has begun; 0: not in this step."""
        if self.cap:
            return min(missing, left, self.cap)
        return min(missing, left)


class Batching:
    """The rules above for one set of limits. `apart`: steps prefill or decode, never both; `continuous`: neither rule."""

    __slots__ = ("budget", "static", "apart", "continuous", "_whole", "_cap", "_adaptive", "_uncapped")

    def __init__(self, limits: Limits, ceiling: int | None = None) -> None:
        self.budget = limits.max_num_batched_tokens if ceiling is None else min(ceiling, limits.max_num_batched_tokens)
        self.static = limits.batching == "static"
        self.apart = limits.batching == "merge"
        self.continuous = not (self.static or self.apart)
        self._whole = not self.continuous or not limits.enable_chunked_prefill
        self._cap = 0 if self._whole else limits.long_prefill_token_threshold
        self._adaptive = limits.long_prefill_token_threshold_adaptive
        self._uncapped = Portions(self.budget, self._whole, 0)

    def cap(self, requests: int) -> int:
        """Most prefill tokens of one request in a step, while so many run and wait; 0: no cap."""
        if not self._cap or requests <= 1:
            return 0
        return max(self._cap, self.budget // requests) if self._adaptive else self._cap

    def portions(self, budget: int, requests: int) -> Portions:
        """The rules for a step of `budget` tokens, while so many requests run and wait."""
        if not self._cap and budget == self.budget:
            return self._uncapped  # the same in most steps
        return Portions(budget, self._whole, self.cap(requests) if self._cap else 0)

    def interrupts(self, waiting: int, decodes: int, decoded: int) -> bool:
        """merge: may newcomers make the batch stand still? decoded: steps that it has decoded since the last prefill."""
        return decoded > 0 and (decoded >= MOST_DECODES or waiting >= SERVED_RATIO * decodes)
