"""Overtaking: how many that came later were admitted before a request, exactly. Knows no request and no queue.

Every request has a place in the order of arrival. A place is marked when its request is first admitted; how often somebody
was overtaken is the number of marks behind his own place. Marks are counted in rows of ROW places, so that a count adds up
one number a row; rows before the oldest who still waits are forgotten. Nothing here grows with history, unless somebody
never gets his turn, and then by one number for ROW arrivals.
Invariant: a place that was given is left once.
"""

from __future__ import annotations

ROW = 512


class Overtaking:
    """The places of all who wait for their first admission."""

    def __init__(self) -> None:
        self._marks: list[bytearray | None] = []  # None once a row is full and nobody of it waits
        self._waiting: list[int] = []
        self._counts: list[int] = []  # marks of each row
        self._marked = 0  # of all rows
        self._first = 0  # number of the first row that is kept
        self._next = 0

    @property
    def rows(self) -> int:
        """Rows that are kept."""
        return len(self._counts)

    def arrive(self) -> int:
        """A place behind all others."""
        place = self._next
        self._next += 1
        if place // ROW - self._first >= len(self._counts):
            self._marks.append(bytearray(ROW))
            self._waiting.append(0)
            self._counts.append(0)
        self._waiting[-1] += 1
        return place

    def count(self, place: int) -> int:
        """How many came after `place`, which was not left yet, and were admitted."""
        row = place // ROW - self._first
        marks = self._marks[row]
        assert marks is not None, f"place {place} was left before"
        return marks.count(1, place % ROW + 1) + self._behind(row)

    def _behind(self, row: int) -> int:
        """Marks of the rows behind `row`, added up from the nearer end: who is next is often among the oldest."""
        if 2 * row < len(self._counts):
            return self._marked - sum(self._counts[: row + 1])
        return sum(self._counts[row + 1 :])

    def leave(self, place: int, admitted: bool) -> int:
        """The request at `place` waits for its first admission no longer; returns its count."""
        count, row = self.count(place), place // ROW - self._first
        if admitted:
            marks = self._marks[row]
            assert marks is not None
            marks[place % ROW] = 1
            self._counts[row] += 1
            self._marked += 1
        self._waiting[row] -= 1
        full = self._next // ROW - self._first  # rows before this one get no more places
        if not self._waiting[row] and row < full:
            self._marks[row] = None
            self._forget(full)
        return count

    def _forget(self, full: int) -> None:
        """The foremost rows of which nobody waits."""
        gone = 0
        while gone < full and not self._waiting[gone]:
            gone += 1
        self._marked -= sum(self._counts[:gone])
        del self._marks[:gone], self._waiting[:gone], self._counts[:gone]
        self._first += gone
