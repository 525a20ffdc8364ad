"""Slots: the numbered places among the running. Knows no request.

Invariant: a slot is either held or free, the lowest free one is given first, and none is given at or above `limit`.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush


class Slots:
    """Places 0 … limit - 1. Slots at or above a lowered limit stay held until they are given back."""

    __slots__ = ("limit", "_free", "_held")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._free = list(range(limit))
        self._held: dict[int, None] = {}

    @property
    def held(self) -> int:
        """Places taken."""
        return len(self._held)

    @property
    def full(self) -> bool:
        """True when nobody can be admitted; also while a lowered limit drains."""
        return len(self._held) >= self.limit

    def take(self) -> int:
        """The lowest free place."""
        assert not self.full, "no slot is free"
        slot = heappop(self._free)
        self._held[slot] = None
        return slot

    def give(self, slot: int) -> None:
        """`slot` is free again."""
        del self._held[slot]
        if slot < self.limit:
            heappush(self._free, slot)

    def resize(self, limit: int) -> None:
        """Change the number of places; who holds one keeps it."""
        self.limit = limit
        self._free = [slot for slot in range(limit) if slot not in self._held]
        heapify(self._free)
