"""COMPOSE: how many tokens of whom go into a step. Knows no order, no blocks and no clock; answers questions only.

Every decode has one token of the budget before this module is asked. The rules for the rest:
  chunking on            a prefill takes what is left, at most `long_prefill_token_threshold`
  chunking off, static   a prompt goes whole or not at all
  longer than a budget   a prompt that no step could hold whole is served all the same: it begins in a step that
                         prefills nobody else and goes in pieces, each of them all that the decodes leave
  static                 who joins, joins while the batch is built, in one step; nobody joins an open batch
Invariant: a piece is never larger than what is left, nor than what is missing.
"""

from __future__ import annotations

from scheduler.core.limits import Limits


class Batching:
    """The rules above for one set of limits."""

    __slots__ = ("budget", "static", "_whole", "_cap")

    def __init__(self, limits: Limits, ceiling: int | None = None) -> None:
        self.budget = limits.max_num_batched_tokens if ceiling is None else min(ceiling, limits.max_num_batched_tokens)
        self.static = limits.batching == "static"
        self._whole = self.static or not limits.enable_chunked_prefill
        self._cap = 0 if self._whole else limits.long_prefill_token_threshold

    def step_budget(self, decodes: int) -> int:
        """Tokens of the step. Decodes are never held back: while a lowered limit drains, they are the budget."""
        return max(self.budget, decodes)

    def first_piece(self, missing: int, left: int, alone: bool) -> int:
        """Tokens for a request that would join; 0: not in this step. `alone`: the step prefills nobody else."""
        if self._whole and missing > left and not (alone and missing > self.budget):
            return 0
        return self.next_piece(missing, left)

    def next_piece(self, missing: int, left: int) -> int:
        """Tokens for a request that has begun; 0: not in this step."""
        if self._cap:
            return min(missing, left, self._cap)
        return min(missing, left)
