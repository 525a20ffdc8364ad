"""Keyset pages of requests: rows by key, no row twice and none left out, whatever arrives meanwhile.

A page is read in two phases, first the rows whose key is defined, then those where it is NULL, each by its index.
Invariant: the union of all pages is the filtered set, in the order (key is NULL, key, id).
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select, tuple_

from app.store import column_pages, drawers
from app.store.errors import QueryError
from app.store.filters import SORTS, Filters, Order, fingerprint
from app.store.models import requests
from app.store.patience import within

COUNT_BOUND = 10_000
COUNT_STEP = 10


@dataclass(frozen=True, slots=True)
class Place:
    """The last row of a page: its key and id."""

    key: Any
    id: str


def page(
    connection: Connection, asked: Filters, sort: Order, size: int, cursor: str | None
) -> tuple[list[dict[str, Any]], str | None]:
    """Rows of `requests` and the cursor of the next page, None at the end."""
    mark = fingerprint(asked, sort)
    place = None if not cursor else _decode(cursor, mark, sort)
    rows: list[dict[str, Any]] = []
    if place is None or place.key is not None:
        rows = _defined(connection, asked, sort, size + 1, place)
    if len(rows) <= size:
        nulls_after = place if place is not None and place.key is None else None
        rows += _undefined(connection, asked, sort, size + 1 - len(rows), nulls_after)
    more, rows = len(rows) > size, rows[:size]
    if not more:
        return rows, None
    last = rows[-1]
    return rows, _encode(Place(last[SORTS[sort.key]], last["id"]), mark)


def count(connection: Connection, asked: Filters, bound: int = COUNT_BOUND) -> tuple[int, bool]:
    """(rows, True), or (bound, False) when there are more than `bound`: counting stops there."""
    some = select(requests.c.id).where(*asked.conditions).limit(bound + 1).subquery()
    n = connection.execute(select(func.count()).select_from(some)).scalar_one()
    return min(n, bound), n <= bound


def count_in(connection: Connection, asked: Filters, seconds: float, known: int) -> tuple[int, bool]:
    """The same in ever larger steps, while the next one is likely to be done in time; at least the `known` rows are there."""
    bound, end, least = COUNT_BOUND // COUNT_STEP**2, time.monotonic() + seconds, known
    while True:
        began = time.monotonic()
        found = within(connection, end - began, partial(count, connection, asked, bound))
        if found is None:
            return least, False
        least = max(least, found[0])
        took = time.monotonic() - began
        if found[1] or bound >= COUNT_BOUND or time.monotonic() + took * COUNT_STEP > end:
            return least, found[1]
        bound *= COUNT_STEP


def _defined(connection: Connection, asked: Filters, sort: Order, n: int, after: Place | None) -> list[dict[str, Any]]:
    place, ids = None if after is None else (after.key, after.id), None
    if drawers.serve(asked, sort):
        ids = within(connection, drawers.PATIENCE_S, partial(drawers.first, connection, asked, sort, n, place))
    elif column_pages.serve(asked, sort):
        ids = column_pages.first(connection, asked, sort, n, place)
    if ids is not None:
        return _whole(connection, ids)
    column, key = sort.column, requests.c.id
    where: list[ColumnElement[bool]] = [*asked.conditions, column.is_not(None)]
    if after is not None:
        here, there = tuple_(column, key), tuple_(after.key, after.id)
        where.append(here < there if sort.descending else here > there)
    ordered = (column.desc(), key.desc()) if sort.descending else (column, key)
    return _rows(connection, where, ordered, n)


def _undefined(connection: Connection, asked: Filters, sort: Order, n: int, after: Place | None) -> list[dict[str, Any]]:
    """By id while such rows are met soon; where they are rare, all are found first and sorted then."""
    key = requests.c.id
    if not requests.c[SORTS[sort.key]].nullable:
        return []
    if column_pages.serve(asked, sort):
        place = None if after is None else (None, after.id)
        ids = column_pages.first(connection, asked, sort, n, place, defined=False)
        if ids is not None:
            return _whole(connection, ids)
    where: list[ColumnElement[bool]] = [*asked.conditions, sort.column.is_(None)]
    if after is not None:
        where.append(key < after.id if sort.descending else key > after.id)
    soon = partial(_rows, connection, where, (key.desc() if sort.descending else key,), n)
    found = within(connection, drawers.PATIENCE_S, soon)
    if found is not None:
        return found
    unsorted = key.concat("")  # no index has it
    return _rows(connection, where, (unsorted.desc() if sort.descending else unsorted,), n)


def _rows(connection: Connection, where: list[ColumnElement[bool]], ordered: tuple[Any, ...], n: int) -> list[dict[str, Any]]:
    """First the ids, then their rows: what has to be sorted is then narrow."""
    return _whole(
        connection, connection.execute(select(requests.c.id).where(*where).order_by(*ordered).limit(n)).scalars().all()
    )


def _whole(connection: Connection, ids: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of these ids, in their order."""
    found = connection.execute(select(requests).where(requests.c.id.in_(ids))).mappings() if ids else ()
    rows = {row["id"]: dict(row) for row in found}
    return [rows[each] for each in ids]


def _encode(place: Place, mark: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([mark, place.key, place.id]).encode()).decode().rstrip("=")


def _decode(cursor: str, mark: str, sort: Order) -> Place:
    try:
        made_for, key, row_id = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError, TypeError):
        raise QueryError("cursor is not one of ours", "cursor") from None
    if made_for != mark:
        raise QueryError("cursor belongs to other filters or another order", "cursor")
    small = isinstance(key, (int, float)) and not isinstance(key, bool) and abs(key) < 1 << 63
    if not isinstance(row_id, str) or not (key is None or (isinstance(key, str) if sort.key == "id" else small)):
        raise QueryError("cursor is not one of ours", "cursor")
    return Place(key, row_id)
