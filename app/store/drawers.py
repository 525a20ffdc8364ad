"""Pages across all runs by a key that has an index within each run: the runs are drawers, each sorted, merged as they are read.

An index over all requests would be written at random places for each request that ends; those of a run are written where the
run is (models.py). So across runs the best row of each drawer is looked up first, and only drawers that can have a row of the
page are opened. Requests of no run are one more drawer, sorted when it is read. Knows no cursor and no NULL key.
A page of one run is that of one drawer. Invariant: the rows and their order are those of one sort of everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any

from sqlalchemy import CTE, ColumnElement, Connection, Integer, Select, bindparam, func, select, true, tuple_

from app.store.filters import SIMULATED, SORTS, Filters, Order
from app.store.models import requests

KEYS = ("ttft_ms", "e2e_ms", "queue_ms")  # each of them has an index (run, key)
PATIENCE_S = 0.25  # a filter that few rows pass is better asked of all of them at once
_NARROW = ("since", "until", "state", "client_request_id", "text")  # found by another index, or by none
_FIRST = 6  # rows taken when a drawer is opened; each time it is looked into again, twice as many
Place = tuple[float, str]
_MINE, _LATER, _ONE = (requests.alias(name) for name in ("mine", "later", "one"))  # of fifty columns: not made for each page


def serve(asked: Filters, sort: Order) -> bool:
    """True where this way is likely to be the shortest."""
    return sort.key in KEYS and not asked.by_name and not any(name in _NARROW for name, _ in asked.given)


def first(connection: Connection, asked: Filters, sort: Order, n: int, after: Place | None) -> list[str]:
    """The ids of the next n rows whose key is defined, in order."""
    drawers = _Drawers(connection, asked, sort, n)
    if asked.run is not None:
        return [id for _, id in drawers.rows(asked.run, after, n)]
    heap = [_Next(sort.descending, best, None, run) for run, best in _bests(connection, sort, after)]
    heap += [_Next(sort.descending, key, id, None) for key, id in drawers.of_no_run(after)]
    heapify(heap)
    found: list[str] = []
    while heap and len(found) < n:
        top = heappop(heap)
        if top.id is not None:
            found.append(top.id)
            if not top.last:
                continue
        rows = drawers.more(top.run, after if top.id is None else (top.key, top.id)) if top.run is not None else []
        for place, (key, id) in enumerate(rows):
            heappush(heap, _Next(sort.descending, key, id, top.run, last=place == len(rows) - 1))
    return found


@dataclass(slots=True)
class _Next:
    """The next row of a drawer; without an id: a drawer that has not been opened, whose best row has this key.

    last: with it the drawer has to be looked into again.
    """

    descending: bool
    key: float
    id: str | None
    run: str | None
    last: bool = False

    def __lt__(self, other: _Next) -> bool:
        """A closed drawer comes before rows of the same key: one of its rows may have the better id."""
        if self.key != other.key:
            return self.key > other.key if self.descending else self.key < other.key
        if self.id is None or other.id is None:
            return self.id is None and other.id is not None
        return self.id > other.id if self.descending else self.id < other.id


@dataclass(slots=True)
class _Drawers:
    connection: Connection
    asked: Filters
    sort: Order
    n: int
    _taken: dict[str, int] = field(default_factory=dict)
    _questions: dict[bool, Select[Any]] = field(default_factory=dict)  # to make one costs as much as to have it answered

    def more(self, run: str, after: Place | None) -> Sequence[Place]:
        """Some of the next (key, id) of one run that pass the filters; none at its end."""
        size = self._taken[run] = min(self.n, 2 * self._taken.get(run, _FIRST // 2))
        return self.rows(run, after, size)

    def rows(self, run: str, after: Place | None, size: int) -> Sequence[Place]:
        """So many of the next (key, id) of one run that pass the filters."""
        begun = after is not None
        if begun not in self._questions:
            self._questions[begun] = _question(self.asked, self.sort, requests.c.run == bindparam("run"), begun=begun)
        return _answered(self.connection, self._questions[begun], after, size, run=run)

    def of_no_run(self, after: Place | None) -> Sequence[Place]:
        """The next n of no run."""
        return rows(self.connection, self.asked, self.sort, requests.c.run.is_(None), after, self.n)


def rows(
    connection: Connection,
    asked: Filters,
    sort: Order,
    of: ColumnElement[bool],
    after: Place | None,
    size: int,
    *,
    defined: bool = True,
) -> Sequence[Place]:
    """The next `size` (key, id) of the rows that `of` names whose key is defined, or is not."""
    question = _question(asked, sort, of, begun=after is not None, defined=defined)
    return _answered(connection, question, after, size)


def _question(asked: Filters, sort: Order, of: ColumnElement[bool], *, begun: bool, defined: bool = True) -> Select[Any]:
    """What `rows` asks, of the next :size rows, behind :key and :id where it has begun. `IS TRUE` keeps a filter from
    choosing the index: all that it finds would then have to be sorted."""
    column, id = sort.column, requests.c.id
    where = [of, *(condition.is_(true()) for condition in asked.conditions)]
    where.append(column.is_not(None) if defined else column.is_(None))
    if begun:
        last, last_id = bindparam("key", type_=column.type), bindparam("id", type_=id.type)
        here, there = (tuple_(column, id), tuple_(last, last_id)) if defined else (id, last_id)
        where.append(here < there if sort.descending else here > there)
    ordered = (column.desc(), id.desc()) if sort.descending else (column, id)
    return select(column, id).where(*where).order_by(*ordered).limit(bindparam("size", type_=Integer()))


def _answered(connection: Connection, question: Select[Any], after: Place | None, size: int, **more: Any) -> Sequence[Place]:
    values = {"size": size} | ({} if after is None else {"key": after[0], "id": after[1]}) | more
    return [(key, id) for key, id in connection.execute(question, values)]


def values(connection: Connection, key: str, run: str | None) -> tuple[list[Select[Any]], int]:
    """What to ask for all defined values of one of KEYS, of one run or of everything, and how many rows there are.

    Each run's index holds them, so that no row is read but those of no run.
    """
    column = requests.c[SORTS[key]]
    names = [run] if run is not None else connection.execute(_measured(select(_FOUND.c.run))).scalars().all()
    drawers: list[ColumnElement[bool]] = [requests.c.run == name for name in names]
    if run is None:
        drawers.append(requests.c.run.is_(None) & (requests.c.endpoint != SIMULATED))
    count = [select(func.count()).select_from(requests).where(each) for each in drawers]
    rows = sum(connection.execute(each).scalar_one() for each in count)
    return [select(column).where(each, column.is_not(None)) for each in drawers], rows


def endpoints(connection: Connection) -> dict[str, str]:
    """Each run that requests name → where one of them was sent: all of a simulated run have that of simulations."""
    question = select(_FOUND.c.run, _ENDPOINT).where(_FOUND.c.run.is_not(None))
    return {run: sent_to for run, sent_to in connection.execute(question)}


def _bests(connection: Connection, sort: Order, after: Place | None) -> list[tuple[str, float]]:
    """(run, key of its best row at or behind `after`) of each run that has one and was not simulated."""
    column = _MINE.c[SORTS[sort.key]]
    best = select(column).where(_MINE.c.run == _FOUND.c.run, column.is_not(None))
    if after is not None:
        best = best.where(column <= after[0] if sort.descending else column >= after[0])
    best = best.order_by(column.desc() if sort.descending else column).limit(1)
    question = _measured(select(_FOUND.c.run, best.scalar_subquery()))
    return [(run, key) for run, key in connection.execute(question) if key is not None]


def _found() -> CTE:
    """The runs that requests name, each looked up behind the one before."""
    found = select(func.min(requests.c.run).label("run")).where(requests.c.run.is_not(None)).cte("found", recursive=True)
    following = select(func.min(_LATER.c.run)).where(_LATER.c.run > found.c.run).scalar_subquery()
    return found.union_all(select(following).where(found.c.run.is_not(None)))


def _measured(question: Select[Any]) -> Select[Any]:
    """Without those that were simulated."""
    return question.where(_FOUND.c.run.is_not(None), _ENDPOINT != SIMULATED)


_FOUND = _found()
_ENDPOINT = select(_ONE.c.endpoint).where(_ONE.c.run == _FOUND.c.run).limit(1).scalar_subquery()
