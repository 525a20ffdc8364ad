"""Take over a simulation's file into the records: its run, its requests, its steps. A job for the Writer, in short slices.

Its life gets a number of its own, below every one that was simulated before. May be repeated after it was cut short.
Invariant: the run's row comes last, so that a run that is listed is whole.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, func, insert, select

from app.store import bulk, database, runs
from app.store.errors import QueryError, StoreError
from app.store.models import boots, client_requests, request_events, requests, settings_changes, steps
from app.store.models import runs as runs_table

_PIECE = 100
_TURN_S = 0.005
_TABLES = (boots, settings_changes, requests, client_requests, request_events, steps)  # requests early: they tell a second try
_FOLDER = "simulations"
_RUN = re.compile(r"run_[0-9a-z]{26}")


def simulation_path(directory: Path, run_id: str) -> Path:
    """Where `batchscope simulate` leaves a run for the records in the data directory `directory`."""
    return directory / _FOLDER / f"{run_id}.db"


def simulation_file(directory: Path, run_id: str) -> Path | None:
    """The same of a run that somebody else names; None when its name is not one of ours, or nothing is there."""
    path = simulation_path(directory, run_id)
    return path if _RUN.fullmatch(run_id) and path.is_file() and not path.is_symlink() else None


def forget(path: Path) -> None:
    """Remove a simulation's file and what SQLite left beside it."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def adopt(connection: Connection, path: Path, run_id: str) -> Generator[None, None, dict[str, Any]]:
    """Copy it all; the run's JSON. Raises QueryError("run") when the file holds no such run, StoreError if we have it."""
    reader = database.reading(f"sqlite:///{path}")
    with reader.connect() as source:
        row = source.execute(select(runs_table).where(runs_table.c.id == run_id)).mappings().first()
        if row is None:
            raise QueryError(f"{path} holds no run {run_id!r}", "run")
        if connection.execute(select(runs_table.c.id).where(runs_table.c.id == run_id)).first() is not None:
            raise StoreError(f"run {run_id} is here already", "run")
        boot, ends_at = _boot(connection, run_id), time.monotonic() + _TURN_S
        for table, rows in _pieces(source):
            bulk.insert(connection, table, [_renumbered(each, boot) for each in rows], ignoring=True)
            if time.monotonic() > ends_at:
                yield
                ends_at = time.monotonic() + _TURN_S
        versions = dict(row["versions"] or {})
        versions["simulation"] = {**versions.get("simulation", {}), "boot": boot}
        connection.execute(insert(runs_table), [dict(row) | {"versions": versions}])
    return runs.get(connection, run_id)


def adopt_here(url: str, path: Path, run_id: str) -> None:
    """The same, now and at once: for a command that holds the data directory's lock."""
    with database.writing(url).connect() as connection, connection.begin():
        for _ in adopt(connection, path, run_id):
            pass


def _boot(connection: Connection, run_id: str) -> int:
    """The number that an earlier try has given, else the next one downwards."""
    given = connection.execute(select(requests.c.boot).where(requests.c.run == run_id, requests.c.boot < 0).limit(1)).scalar()
    least = connection.execute(select(func.min(boots.c.boot))).scalar()
    return given if given is not None else min(least or 0, 0) - 1


def _pieces(source: Connection) -> Iterator[tuple[Table, list[dict[str, Any]]]]:
    for table in _TABLES:
        found = source.execution_options(yield_per=_PIECE).execute(select(table).order_by(*table.primary_key.columns))
        for rows in found.mappings().partitions(_PIECE):
            yield table, [dict(row) for row in rows]


def _renumbered(row: dict[str, Any], boot: int) -> dict[str, Any]:
    """A rejected request belongs to no life: its boot stays NULL."""
    return row | {"boot": boot} if row.get("boot") is not None else row
