"""Take over a run from a file of its own, as a simulation or an import leaves it: its rows, its requests, its steps.

A job for the Writer, in short slices. Its lives get numbers of their own, below every one that is here: they keep their order.
May be repeated after it was cut short.
Invariant: the run's row comes last, so that a run that is listed is whole; no row of another run is ever touched.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, func, insert, select

from app.store import bulk, database, runs
from app.store.errors import QueryError, StoreError
from app.store.models import boots, client_requests, request_events, requests, settings_changes, steps
from app.store.models import runs as runs_table
from app.store.own_lives import own_lives, renumbered

_PIECE = 100
_TURN_S = 0.005
_TABLES = (boots, settings_changes, requests, client_requests, request_events, steps)  # requests early: they tell a second try
_FOLDER = "simulations"
_RUN = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,63}")


def simulation_path(directory: Path, run_id: str) -> Path:
    """Where `batchscope simulate` or `runs import` leaves a run for the records in the data directory `directory`."""
    return directory / _FOLDER / f"{run_id}.db"


def simulation_file(directory: Path, run_id: str) -> Path | None:
    """The same of a run that somebody else names; None when its name could lead elsewhere, or nothing is there."""
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
        for ids in _ids(source):
            _refuse_taken(connection, run_id, ids)
            yield
        numbers, ends_at = _numbers(connection, source, dict(row)), time.monotonic() + _TURN_S
        for table, rows in _pieces(source):
            bulk.insert(connection, table, [_renumbered(each, numbers) for each in rows], ignoring=True)
            if time.monotonic() > ends_at:
                yield
                ends_at = time.monotonic() + _TURN_S
        versions = renumbered(row["versions"], numbers)
        connection.execute(insert(runs_table), [dict(row) | {"versions": versions}])
    return runs.get(connection, run_id)


def adopt_here(url: str, path: Path, run_id: str) -> None:
    """The same, now and at once: for a command that holds the data directory's lock."""
    with database.writing(url).connect() as connection, connection.begin():
        for _ in adopt(connection, path, run_id):
            pass


def _numbers(connection: Connection, source: Connection, run: Mapping[str, Any]) -> dict[int, int]:
    """Number of a life in the file → here: as an earlier try has given it, else the next ones downwards."""
    lives = sorted(own_lives(run["versions"]) or ())
    given, least = _given(connection, source, run["id"]), connection.execute(select(func.min(boots.c.boot))).scalar()
    if given is not None:
        first = given[1] - lives.index(given[0])
    else:
        first = min(least or 0, 0, _least_of_steps(connection)) - len(lives)
    return {boot: first + n for n, boot in enumerate(lives)}


def _given(connection: Connection, source: Connection, run_id: str) -> tuple[int, int] | None:
    """(a life in the file, its number here), where an earlier try took over a request of it."""
    mine = requests.c.run == run_id, requests.c.boot < 0
    here = connection.execute(select(requests.c.id, requests.c.boot).where(*mine).limit(1)).first()
    if here is None:
        return None
    boot = source.execute(select(requests.c.boot).where(requests.c.id == here.id)).scalar()
    return None if boot is None else (boot, here.boot)


def _least_of_steps(connection: Connection) -> int:
    """A life whose row nobody has may have steps all the same."""
    return connection.execute(select(func.min(steps.c.boot))).scalar() or 0


def _ids(source: Connection) -> Iterator[list[str]]:
    found = source.execution_options(yield_per=_PIECE).execute(select(requests.c.id).order_by(requests.c.id))
    yield from (list(ids) for ids in found.scalars().partitions(_PIECE))


def _refuse_taken(connection: Connection, run_id: str, ids: list[str]) -> None:
    taken = select(requests.c.id).where(requests.c.id.in_(ids), requests.c.run.is_distinct_from(run_id)).limit(1)
    if (other := connection.execute(taken).scalar()) is not None:
        raise StoreError(f"request {other} of run {run_id} is here already, in another run: import it under another id", "run")


def _pieces(source: Connection) -> Iterator[tuple[Table, list[dict[str, Any]]]]:
    for table in _TABLES:
        found = source.execution_options(yield_per=_PIECE).execute(select(table).order_by(*table.primary_key.columns))
        for rows in found.mappings().partitions(_PIECE):
            yield table, [dict(row) for row in rows]


def _renumbered(row: dict[str, Any], numbers: Mapping[int, int]) -> dict[str, Any]:
    """A rejected request belongs to no life: its boot stays NULL."""
    return row | {"boot": numbers[row["boot"]]} if row.get("boot") is not None else row
