"""StepRoom: the tokens of the step that is being planned: how many there are, who got some, what is left. Knows no queue.

Batching says how many tokens of whom, the budget what ends in time; this keeps count of both for one step. `tokens`, the
budget in force, only ever falls while a step is planned: to what is planned, once the ITL target allows no more.
Invariant: decodes in the step + tokens taken ≤ tokens, unless the decodes alone are more.
"""

from __future__ import annotations

from scheduler.core.batching import Batching, Portions
from scheduler.core.budget import Budget
from scheduler.core.decode_group import DecodeGroup
from scheduler.core.request import WaitReason


class StepRoom:
    """One for each planner, opened anew for each step. `still`: the decodes are not in the step."""

    __slots__ = ("tokens", "still", "_budget", "_most", "_portions", "_taken", "_chunks")

    def __init__(self, budget: Budget) -> None:
        self.tokens = 0
        self.still = False
        self._budget = budget
        self._most = 0
        self._portions = Portions(0, False, 0)
        self._taken = 0
        self._chunks: list[tuple[int, int]] = []  # (tokens, tokens computed before)

    def open(self, batching: Batching, group: DecodeGroup, requests: int, still: bool) -> None:
        """A step begins; `requests` run and wait."""
        self.still = still
        self._taken = 0
        if self._chunks:
            self._chunks = []
        self._most = self.tokens = batching.budget
        if self._budget.target_ns:
            self.tokens = self._budget.of(self._most, *self._decodes(group))
        self._portions = batching.portions(self.tokens, requests)

    def _decodes(self, group: DecodeGroup) -> tuple[int, int]:
        return (0, 0) if self.still else (len(group), group.context)

    def left(self, group: DecodeGroup) -> int:
        """Tokens that nobody has."""
        return self.tokens - self._taken - (0 if self.still else len(group))

    def next_piece(self, group: DecodeGroup, missing: int, prior: int) -> int:
        """Tokens for a prefill that has begun, `prior` of which are computed; 0: not in this step."""
        return self._in_time(group, self._portions.next_piece(missing, self.left(group)), prior)

    def first_piece(self, group: DecodeGroup, length: int, prior: int, freed: int = 0) -> int:
        """Tokens for a sequence that would join, `prior` of which are cached; 0: not now. freed: decodes that yield."""
        alone = not self._chunks
        tokens = self._portions.first_piece(length - prior, self.left(group) + freed, alone)
        granted = self._in_time(group, tokens, prior)
        return granted if granted == tokens or alone or not self._portions.whole else 0

    def _in_time(self, group: DecodeGroup, tokens: int, prior: int) -> int:
        """As many of them as end in time; if that is fewer, the step's tokens are spent."""
        if not self._budget.target_ns:
            return tokens
        decodes, context = self._decodes(group)
        granted = self._budget.fit(decodes, context, self._chunks, prior, tokens)
        if granted < tokens:
            self.tokens = decodes + self._taken + granted
        return granted

    def take(self, tokens: int, prior: int) -> None:
        """They are planned."""
        self._chunks.append((tokens, prior))
        self._taken += tokens

    @property
    def bound_by(self) -> WaitReason:
        """What to wait for when no tokens are left: those of the setting, or those that the ITL target leaves to prefills."""
        return WaitReason.TOKEN_BUDGET if self.tokens >= self._most else WaitReason.PREFILL_CAP
