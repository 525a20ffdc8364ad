"""The columns that are kept of runs as one sequence: the next rows behind a place, by key and id. Reads nothing of the rows.

A column is read whole; the ids of those rows alone that are wanted. Rows that share a key are taken in the order of their
ids, as far as parts of ids can hold one of the next.
Invariant: what `following` gives, call by call, is one sort of all rows of these runs whose key is defined, or is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sqlalchemy import Connection, select

from app.store.filters import Order
from app.store.models import run_columns
from app.store.run_columns import IDS, Part, ids_of

_OPENED = 8  # parts of ids that are opened first, of those who share a key; then twice as many each time
Place = tuple[Any, str]  # (key, id)
Indexes = np.ndarray[Any, np.dtype[np.intp]]


@dataclass(slots=True)
class Columns:
    """The keys of all rows of the runs that are `kept`, run by run, within a run in the order of their ids."""

    connection: Connection
    sort: Order
    kept: frozenset[str]
    defined: bool  # else those are asked for whose key is NULL
    _keys: np.ndarray[Any, np.dtype[np.float64]] = field(init=False)
    _parts: list[tuple[str, int]] = field(init=False)  # (run, number) of each part
    _starts: Indexes = field(init=False)  # where each begins, and the end
    _bounds: list[tuple[str, str]] | None = None  # (first, last) id of each part

    def __post_init__(self) -> None:
        table, ids = run_columns.c, self.sort.key == IDS
        question = select(table.run, table.part, table.size, table.form, *(() if ids else (table.data,)))
        rows = [row for row in self.connection.execute(self._ordered(question, self.sort.key)) if row.run in self.kept]
        self._parts = [(row.run, row.part) for row in rows]
        self._starts = np.cumsum([0, *[row.size for row in rows]])
        if ids:  # all share one key: their own order is that of the ids
            self._keys = np.zeros(self._starts[-1])
        else:
            self._keys = np.concatenate([np.zeros(0), *[np.frombuffer(row.data, row.form) for row in rows]])

    def following(self, after: Place | None, size: int) -> list[Place]:
        """The next `size` behind a place, in order; fewer at the end."""
        keys, down, found = self._keys, self.sort.descending, list[Place]()
        if self.sort.key == IDS:
            return [(id, id) for id in self._tied(np.arange(len(keys)), size, after and after[1])]
        if not self.defined:
            return [(None, id) for id in self._tied(np.flatnonzero(np.isnan(keys)), size, after and after[1])]
        ahead = ~np.isnan(keys)
        if after is not None:
            found = [(after[0], id) for id in self._tied(np.flatnonzero(keys == after[0]), size, after[1])]
            ahead = keys < after[0] if down else keys > after[0]
        need = size - len(found)
        worst, better, level = _parted(keys, ahead, need, down)
        found += sorted(zip(keys[better].tolist(), self._ids(better), strict=True), reverse=down)
        return found + [(worst, id) for id in self._tied(level, need - len(better), None)]

    def _tied(self, level: Indexes, need: int, beyond: str | None) -> list[str]:
        """Of rows that share a key the next `need` ids, behind `beyond`. Parts are opened in order, while they can have one."""
        down, found = self.sort.descending, list[str]()
        edges = np.searchsorted(level, self._starts)
        bounds = self._id_bounds() if need and len(level) else []
        held = [part for part in range(len(bounds)) if edges[part] < edges[part + 1]]
        held.sort(key=lambda part: bounds[part][down], reverse=down)
        if beyond is not None:
            held = [part for part in held if (bounds[part][0] < beyond if down else bounds[part][1] > beyond)]
        opened = _OPENED
        while held:
            best = bounds[held[0]][down]
            if len(found) >= need and (best < found[-1] if down else best > found[-1]):
                break
            some = list[Indexes]()
            for part in held[:opened]:
                mine = level[edges[part] : edges[part + 1]]
                cut = beyond is not None and bounds[part][0] <= beyond <= bounds[part][1]
                some.append(mine if cut else mine[-need:] if down else mine[:need])
            ids = [
                id
                for id in self._ids(np.sort(np.concatenate(some)))
                if beyond is None or (id < beyond if down else id > beyond)
            ]
            found = sorted([*found, *ids], reverse=down)[:need]
            held, opened = held[opened:], opened * 2
        return found

    def _id_bounds(self) -> list[tuple[str, str]]:
        if self._bounds is None:
            table = run_columns.c
            question = select(table.run, table.part, table.first_id, table.last_id)
            found = {(run, part): (low, high) for run, part, low, high in self.connection.execute(self._ordered(question, IDS))}
            self._bounds = [found[part] for part in self._parts]
        return self._bounds

    def _ordered(self, question: Any, name: str) -> Any:
        """One column, part by part; of one run nothing is read but its own."""
        table = run_columns.c
        mine = [table.name == name, *(table.run == run for run in self.kept if len(self.kept) == 1)]
        return question.where(*mine).order_by(table.run, table.part)

    def _ids(self, indexes: Indexes) -> list[str]:
        """In the order of the indexes, which ascend."""
        of = np.searchsorted(self._starts, indexes, "right") - 1
        opened, found = self._opened([self._parts[part] for part in np.unique(of)]), list[str]()
        for part in np.unique(of).tolist():
            found += ids_of(opened[self._parts[part]], (indexes[of == part] - self._starts[part]).tolist())
        return found

    def _opened(self, parts: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Part]:
        table, found = run_columns.c, dict[tuple[str, int], Part]()
        wanted: dict[str, list[int]] = {}
        for run, part in parts:
            wanted.setdefault(run, []).append(part)
        columns = [table[name] for name in Part.__dataclass_fields__]
        for run, numbers in wanted.items():
            mine = (table.name == IDS) & (table.run == run) & table.part.in_(numbers)
            for row in self.connection.execute(select(*columns).where(mine)):
                found[run, row.part] = Part(*row)
        return found


def _parted(keys: Any, ahead: Any, need: int, down: bool) -> tuple[float, Indexes, Indexes]:
    """(the key of the worst of the best `need` of those `ahead`, those that are better, those that share it).

    A sample says first what is too bad: it has so many that are better already.
    """
    step = math.isqrt(max(1, len(keys) // max(1, need)))
    sample = keys[::step][ahead[::step]]
    if 0 < need <= len(sample):
        bound = _nth(sample, need, down)
        ahead &= keys >= bound if down else keys <= bound
    rest = np.flatnonzero(ahead)
    if need <= 0:
        return 0.0, rest[:0], rest[:0]
    if len(rest) <= need:
        return 0.0, rest, rest[:0]
    values = keys[rest]
    worst = _nth(values, need, down)
    return worst, rest[values > worst if down else values < worst], rest[values == worst]


def _nth(values: Any, n: int, down: bool) -> float:
    """The n-th best."""
    place = len(values) - n if down else n - 1
    return float(np.partition(values, place)[place])
