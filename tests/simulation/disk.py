"""The simulated disk: the real schema in an SQLite database in memory, and faults on the writer's statements and commits.

Knows no row. A fault is full, locked (refused before anything is written), or doubtful (the commit is done, and then refused).
Invariant: what was committed survives whatever process dies; what was not, does not.
"""

from __future__ import annotations

import itertools
import sqlite3
from typing import Any

from simulation.world import World
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.exc import OperationalError

from app.store.models import metadata

FULL, LOCKED, DOUBTFUL = "database or disk is full", "database is locked", "disk I/O error"
KINDS = (FULL, LOCKED, DOUBTFUL)
_CODES = {FULL: sqlite3.SQLITE_FULL, LOCKED: sqlite3.SQLITE_BUSY, DOUBTFUL: sqlite3.SQLITE_IOERR}
_names = itertools.count(1)


def _template() -> sqlite3.Connection:
    made = sqlite3.connect(":memory:")
    engine = create_engine("sqlite://", creator=lambda: made)
    metadata.create_all(engine)
    return made


_TEMPLATE = _template()


class Disk:
    """One database. `break_down` begins a fault, `repair` ends it."""

    def __init__(self, world: World) -> None:
        place = f"file:simulation-{next(_names)}?mode=memory&cache=shared"
        self.url = f"sqlite:///{place}&uri=true"
        self._world = world
        self._keeper = sqlite3.connect(place, uri=True)
        _TEMPLATE.backup(self._keeper)
        self._fault: str | None = None
        self._left = 0  # writes that the fault still hits; below zero: all of them
        self.hits = 0
        self.commits = 0

    def break_down(self, kind: str, writes: int) -> None:
        """Refuse the next `writes` writes; -1: until `repair`."""
        self._fault, self._left = kind, writes

    def repair(self) -> None:
        self._fault = None

    @property
    def broken(self) -> bool:
        return self._fault is not None

    def attach(self, engine: Engine) -> None:
        """Have the engine of a writer meet the faults."""
        event.listen(engine, "before_cursor_execute", self._before)
        event.listen(engine, "commit", self._commit)

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """What is durable."""
        return self._keeper.execute(statement, values).fetchall()

    def close(self) -> None:
        self._keeper.close()

    # ---- inside

    def _before(self, _connection: Any, _cursor: Any, statement: str, *_: object) -> None:
        if self._fault in (FULL, LOCKED) and not statement.startswith("SELECT"):
            self._hit()

    def _commit(self, connection: Any) -> None:
        if self._fault is None:
            self.commits += 1
        elif self._fault == DOUBTFUL:
            connection.connection.dbapi_connection.commit()
            self._hit()

    def _hit(self) -> None:
        fault, self._left = self._fault, self._left - 1
        if not self._left:
            self._fault = None
        self.hits += 1
        self._world.note("disk", fault)
        cause = sqlite3.OperationalError(fault)
        cause.sqlite_errorcode = _CODES[str(fault)]
        raise OperationalError("(simulated)", None, cause)
