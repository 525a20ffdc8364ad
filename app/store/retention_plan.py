"""What a rule of retention would take away, counted and not touched. Reads only.

Invariant: for the same rows and the same instant it names what `retention.prune` takes.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, func, or_, select

from app.store import database_size
from app.store.instants import iso
from app.store.models import client_requests, request_events, requests, runs, steps
from app.store.own_lives import own_lives
from app.store.retention import EARLIEST, SECOND, Rule, ended, kept_windows, limit

_SAMPLED = 100  # rows of a table whose size is measured
_HALVINGS = 24  # of the time between the oldest row and now


def plan(connection: Connection, rule: Rule, now: int) -> dict[str, Any]:
    """{removed: rows by table, removed_bytes, bytes, oldest_kept}: what would go. Bytes are an estimate by the rows' sizes."""
    aged = 0 if rule.older_than_s is None else now - round(rule.older_than_s * SECOND)
    latest = limit(connection, now)
    before = min(aged, latest)
    scale = _Scale(connection)
    if rule.larger_than is not None and scale.bytes is not None and scale.bytes > rule.larger_than:
        before = max(before, _until_it_fits(connection, rule, scale, scale.bytes - rule.larger_than, before, latest))
    counts = _counts(connection, rule, before)
    return {
        "removed": {name: rows for name, rows in counts.items() if rows},
        "removed_bytes": scale.of(counts),
        "bytes": scale.bytes,
        "oldest_kept": iso(_oldest_kept(connection, rule, before)),
    }


def kept(connection: Connection) -> dict[str, Any]:
    """{bytes, oldest}: how much is in use (None where the database does not say), since when requests are there."""
    oldest = connection.execute(select(func.min(requests.c.received_wall)).where(requests.c.received_wall >= EARLIEST)).scalar()
    return {"bytes": database_size.used(connection), "oldest": iso(oldest)}


class _Scale:
    """Rows into bytes: what is in use, shared out by the size of sampled rows, so that indexes count too."""

    def __init__(self, connection: Connection) -> None:
        self.bytes = database_size.used(connection)
        tables = (runs, requests, request_events, client_requests, steps)
        self._weights = {table.name: _row_bytes(connection, table) for table in tables} if self.bytes is not None else {}
        rows = {table.name: connection.execute(select(func.count()).select_from(table)).scalar_one() for table in tables}
        self._all = sum(self._weights.get(name, 0) * n for name, n in rows.items())

    def of(self, counts: dict[str, int]) -> int | None:
        """Bytes, about; None where the database does not say."""
        if self.bytes is None:
            return None
        return round(self.bytes * sum(self._weights[name] * n for name, n in counts.items()) / self._all) if self._all else 0


def _row_bytes(connection: Connection, table: Table) -> float:
    lengths = sum((func.coalesce(func.length(column), 0) for column in table.columns), start=func.length("----"))
    some = select(lengths.label("size")).limit(_SAMPLED).subquery()
    return float(connection.execute(select(func.avg(some.c.size))).scalar() or 0)


def _until_it_fits(connection: Connection, rule: Rule, scale: _Scale, excess: int, low: int, high: int) -> int:
    """The first instant, within a stretch, before which there is as much as has to go."""
    firsts = (select(func.min(column)).where(column >= EARLIEST) for column in (requests.c.received_wall, steps.c.ended_wall))
    known = [wall for question in firsts if (wall := connection.execute(question).scalar()) is not None]
    low = max(low, min(known, default=low))
    for _ in range(_HALVINGS):
        middle = (low + high) // 2
        if high - low <= SECOND:
            break
        if (scale.of(_counts(connection, rule, middle)) or 0) >= excess:
            high = middle
        else:
            low = middle
    return high


def _counts(connection: Connection, rule: Rule, before: int) -> dict[str, int]:
    going = select(runs.c.id).where(ended(before, rule))
    mine = _requests(rule, before)
    chosen = select(requests.c.id).where(mine)
    asked = {
        "runs": select(func.count()).select_from(runs).where(ended(before, rule)),
        "requests": select(func.count()).where(mine),
        "request_events": select(func.count()).where(request_events.c.request_id.in_(chosen)),
        "client_requests": select(func.count()).where(client_requests.c.run.in_(going)),
        "steps": select(func.count()).where(_steps(connection, rule, before)),
    }
    return {name: connection.execute(question).scalar_one() for name, question in asked.items()}


def _requests(rule: Rule, before: int) -> ColumnElement[bool]:
    table = requests.c
    of_none = or_(table.run.is_(None), table.run.not_in(select(runs.c.id)))
    old = and_(table.received_wall >= EARLIEST, table.received_wall < before, table.state == "finished", of_none)
    return or_(old, table.run.in_(select(runs.c.id).where(ended(before, rule))))


def _steps(connection: Connection, rule: Rule, before: int) -> ColumnElement[bool]:
    table = steps.c
    kept = [~table.ended_wall.between(start, end) for start, end in kept_windows(connection, before, rule) if start < before]
    old = and_(table.boot >= 0, table.ended_wall >= EARLIEST, table.ended_wall < before, *kept)
    versions = connection.execute(select(runs.c.versions).where(ended(before, rule))).scalars()
    lives = [boot for told in versions for boot in own_lives(told) or ()]
    return or_(old, table.boot.in_(lives))


def _oldest_kept(connection: Connection, rule: Rule, before: int) -> int | None:
    table = requests.c
    question = select(func.min(table.received_wall)).where(table.received_wall >= EARLIEST, ~_requests(rule, before))
    oldest: int | None = connection.execute(question).scalar()
    return oldest
