"""Pages by a key that has no index: from the columns that are kept of runs (run_columns.py), and of the other rows by a sort.

A column is read whole, 1 to 8 bytes a request, and the best that lie behind the last row are taken; their ids are looked up,
and the filters are asked of those rows alone. Where few pass, more are taken, up to MOST: then one scan of everything is
shorter, as it is where many rows belong to no run whose columns are kept.
Invariant: the rows and their order are those of one sort of everything. Columns are believed while there are as many rows as
when they were made: requests of a run may come late, and none is deleted before its run's columns are (runs.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select, true

from app.store import drawers
from app.store.filters import SIMULATED, Filters, Order
from app.store.models import requests, run_columns
from app.store.run_columns import IDS, KEYS
from app.store.sorted_columns import Columns, Place

MOST = 16_000  # rows that are asked whether they pass
_WIDER = 8  # times as many are asked at most the next time; once only where none has passed
_AMPLY = 1.5  # times as many as are likely to do
_SCAN = 4  # a scan is shorter where more than one row in so many has to be sorted
_NARROW = ("state", "client_request_id", "text")  # few pass, or an index finds them


def serve(asked: Filters, sort: Order) -> bool:
    """True where this way may be the shortest: ids have an index, but none within a run."""
    known = sort.key in KEYS or (sort.key == IDS and asked.run is not None)
    return known and not asked.by_name and not any(name in _NARROW for name, _ in asked.given)


def first(
    connection: Connection, asked: Filters, sort: Order, n: int, after: Place | None, *, defined: bool = True
) -> list[str] | None:
    """The ids of the next n rows whose key is defined, in order, or of those whose key is not; None where a scan is shorter."""
    cover = _cover(connection, asked.run, sort.key)
    if cover is None:
        return None
    columns = Columns(connection, sort, cover.kept, defined)
    found, place, size, looked = list[Place](), after, n, 0
    while len(found) < n:
        some = columns.following(place, size)
        found += _passing(connection, asked, some)
        looked += size
        if len(some) < size:
            break
        place, size = some[-1], _likely(len(found), n, looked)
        if looked + size > MOST and len(found) < n:
            return None
    for of in cover.others:
        found += drawers.rows(connection, asked, sort, of, after, n, defined=defined)
    return [id for _, id in sorted(found, reverse=sort.descending)[:n]]


def _likely(found: int, n: int, looked: int) -> int:
    """How many more are to be asked; more than MOST where hardly any pass."""
    most = looked * _WIDER
    if found:
        return min(most, math.ceil((n - found) * looked / found * _AMPLY))
    return most if looked == n else MOST + 1


def _passing(connection: Connection, asked: Filters, places: Sequence[Place]) -> list[Place]:
    """Of these, those that are there and pass the filters."""
    where = [condition.is_(true()) for condition in asked.conditions]  # so that no filter chooses its own index
    question = select(requests.c.id).where(requests.c.id.in_([id for _, id in places]), *where)
    passing = set(connection.execute(question).scalars()) if places else set()
    return [place for place in places if place[1] in passing]


# ---- which rows have columns


@dataclass(frozen=True, slots=True)
class _Cover:
    """kept: runs whose columns are true; others: conditions that name the remaining rows, each once."""

    kept: frozenset[str]
    others: list[Any]


def _cover(connection: Connection, run: str | None, name: str) -> _Cover | None:
    """None where columns would spare little."""
    table = run_columns.c
    whole = select(table.run, func.sum(table.size)).where(table.name == name).group_by(table.run)
    kept = {of: int(size) for of, size in connection.execute(whole if run is None else whole.where(table.run == run))}
    if not kept:
        return None
    if run is not None:
        return _Cover(frozenset(kept), []) if _count(connection, requests.c.run == run) == kept[run] else None
    return _of_all(connection, kept)


def _of_all(connection: Connection, kept: dict[str, int]) -> _Cover | None:
    """All rows are counted at once, which is nearly free; each run's only where the sum is another."""
    simulated = drawers.endpoints(connection)
    everything, free = _count(connection), _count(connection, requests.c.run.is_(None))
    others = {run: _count(connection, requests.c.run == run) for run in simulated if run not in kept}
    mine = {run: size for run, size in kept.items() if run in simulated}
    if free + sum(others.values()) + sum(mine.values()) != everything:
        now = {run: _count(connection, requests.c.run == run) for run in mine}
        others |= {run: size for run, size in now.items() if size != mine[run]}
    shown = {run: size for run, size in others.items() if simulated[run] != SIMULATED}
    if (free + sum(shown.values())) * _SCAN > everything:
        return None
    kinds = [requests.c.run == run for run in shown] + ([requests.c.run.is_(None)] if free else [])
    return _Cover(frozenset(run for run in mine if run not in others and simulated[run] != SIMULATED), kinds)


def _count(connection: Connection, *of: Any) -> int:
    return int(connection.execute(select(func.count()).select_from(requests).where(*of)).scalar_one())
