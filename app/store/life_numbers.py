"""The numbers of lives: of the web process, and of the engines it starts. Knows one row of `boots`, no thread.

A life stands in the records only once an event of it does, and the web may die before. So one row stands ahead of every
number that was given: it is written with the web's own start, and moved on (a job, beside the accepts) long before the
numbers below it run out. Who starts next goes on above it.
Invariant: no number is given twice, whatever dies; the row ahead is durable before a number below it is given.
"""

from __future__ import annotations

from sqlalchemy import Connection, delete

from app.store import bulk
from app.store.errors import StoreBusy
from app.store.models import boots

AHEAD = 8  # engine lives that may begin while the database takes nothing
AHEAD_OF_LIVES = "reserved"  # in the column `runner`: no life at all


class LifeNumbers:
    """See the module. `next` and `moved` are called where the callers live, `move` and `settle` hold a transaction."""

    def __init__(self) -> None:
        self._given = 0
        self._ahead = 0
        self._moving = False

    def begin(self, web_boot: int) -> None:
        """The web's own number, which is in the records."""
        self._given = self._ahead = web_boot

    def next(self) -> int:
        """A number above every one before. Raises StoreBusy while none is left below the row ahead."""
        if self._given + 1 >= self._ahead:
            raise StoreBusy("no number is left for another engine life until the records take one")
        self._given += 1
        return self._given

    def must_move(self) -> bool:
        """Is it time to move the row on? Says so once for each time."""
        due = not self._moving and self._ahead - self._given <= AHEAD // 2
        self._moving = self._moving or due
        return due

    def move(self, connection: Connection) -> int:
        """Put the row ahead again; returns its number, for `moved` after the commit."""
        ahead = self._given + AHEAD
        _put(connection, ahead)
        return ahead

    def moved(self, ahead: int | None, error: Exception | None) -> None:
        """The commit went through, or not: then the next number asks again."""
        self._moving = False
        if error is None and ahead is not None:
            self._ahead = ahead

    def settle(self, connection: Connection) -> None:
        """At an orderly end nothing need be left free: the row goes back to the last number given, if it has none yet."""
        _put(connection, self._given)


def _put(connection: Connection, number: int) -> None:
    connection.execute(delete(boots).where(boots.c.runner == AHEAD_OF_LIVES))
    row = {"boot": number, "wall": 0, "mono": 0, "runner": AHEAD_OF_LIVES, "created": 0}
    bulk.insert(connection, boots, [row], ignoring=True)
