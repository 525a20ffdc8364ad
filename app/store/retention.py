"""Records that are old, or too many, taken away: the oldest first, whole requests and whole runs. A job for the Writer.

It walks through time in stretches. Of each go the runs that ended in it, the requests of no run, and the steps that lie in the
window of no run that stays. In slices of a few ms, so that accepts go between; what was done stays done.
Invariant: an open request, an active run, a request of a run that stays and a step of its window are never taken.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, delete, func, select, tuple_

from app.store import database_size, purged
from app.store import runs as run_rows
from app.store.errors import StoreError
from app.store.models import request_events, requests, runs, steps
from app.store.own_lives import own_lives

EARLIEST = 946_684_800 * 10**9  # the year 2000: what was simulated has a clock of its own, which begins at 0
QUIET_NS = 60 * 10**9  # younger than this nothing is taken, whatever its size
SECOND = 10**9
_TURN_S = 0.005  # how long a transaction goes on: accepts wait meanwhile
_PIECE = 20  # rows deleted by one statement
_LOOKED_AT = 200  # rows looked at by one
_STRETCHES = {False: 64, True: 512}  # of what may go; finer where it ends as soon as the size fits


@dataclass(frozen=True, slots=True)
class Rule:
    """What may go: what is older, and the oldest while there is more. None: no bound. cause: who says so, for the ledger."""

    older_than_s: float | None = None
    larger_than: int | None = None  # bytes in use
    keep_runs: bool = False
    cause: str = "operator"


@dataclass(slots=True)
class Walk:
    """One go at it. reached: all before was looked at; done: there is nothing more to take."""

    reached: int
    done: bool = False
    gone: Counter[str] = field(default_factory=Counter)
    turn_s: float = _TURN_S
    turn_ends: float = 0.0

    def taken(self, table: str, rows: int) -> None:
        """So many rows went."""
        self.gone[table] += rows

    def turn_over(self) -> bool:
        """Is it the accepts' turn? Begins the next one if so."""
        now = time.monotonic()
        over = now > self.turn_ends
        if over:
            self.turn_ends = now + self.turn_s
        return over


def prune(
    connection: Connection,
    rule: Rule,
    now: int,
    since: int = EARLIEST,
    seconds: float = float("inf"),
    turn_s: float | None = None,
) -> Generator[None, None, dict[str, Any]]:
    """Go on from `since` (epoch ns) for about `seconds`: {removed: by table, reached, done, bytes}. turn_s: of one slice."""
    _refuse_unmeasured(connection, rule)
    turn_s = _TURN_S if turn_s is None else turn_s
    walk = Walk(max(since, EARLIEST), turn_s=turn_s, turn_ends=time.monotonic() + turn_s)
    ends_at = time.monotonic() + seconds
    while not walk.done:
        stretch = _next_stretch(connection, rule, walk.reached, now)
        walk.done = stretch is None
        if stretch is not None:
            yield from _empty(connection, rule, walk, *stretch)
            walk.reached = stretch[1]
            if walk.turn_over():
                yield
        if time.monotonic() > ends_at:
            break
    if walk.done:
        yield from database_size.give_back(connection)
    return {
        "removed": dict(walk.gone),
        "reached": walk.reached,
        "done": walk.done,
        "bytes": database_size.used(connection),
    }


def limit(connection: Connection, now: int) -> int:
    """Nothing received or ended at or after this instant may go: what is open, an active run, the last minute."""
    held = [now - QUIET_NS]
    held += connection.execute(select(func.min(requests.c.received_wall)).where(requests.c.state != "finished")).scalars()
    begun = func.min(func.coalesce(runs.c.started_wall, runs.c.created_wall))
    held += connection.execute(select(begun).where(runs.c.status.in_(run_rows.ACTIVE))).scalars()
    return min(wall for wall in held if wall is not None)


def kept_windows(connection: Connection, before: int, rule: Rule, since: int = 0) -> list[tuple[int, int]]:
    """(start, end) of the runs that stay when all before an instant goes: their steps stay too. since: ended later."""
    table = runs.c
    question = select(table.created_wall, table.started_wall, table.ended_wall, table.versions)
    later = table.ended_wall.is_(None) | (table.ended_wall >= since)
    rows = connection.execute(question.where(later, ~ended(before, rule))).all()
    spans = [(row.started_wall or row.created_wall, row.ended_wall) for row in rows if own_lives(row.versions) is None]
    return sorted((start, 1 << 62 if end is None else end) for start, end in spans)


def ended(before: int, rule: Rule) -> Any:
    """Runs that go: they have ended before the instant."""
    over = runs.c.status.not_in(run_rows.ACTIVE) & (func.coalesce(runs.c.ended_wall, runs.c.created_wall) < before)
    return over & (runs.c.id != runs.c.id) if rule.keep_runs else over


def _refuse_unmeasured(connection: Connection, rule: Rule) -> None:
    if rule.larger_than is not None and database_size.used(connection) is None:
        raise StoreError("only the embedded database says how much of it is in use: prune this one by age", "larger_than")


def _next_stretch(connection: Connection, rule: Rule, reached: int, now: int) -> tuple[int, int] | None:
    """(from, to) of what is to be looked at next, or None."""
    over = rule.larger_than is not None and (database_size.used(connection) or 0) > rule.larger_than
    aged = 0 if rule.older_than_s is None else now - round(rule.older_than_s * SECOND)
    until = min(limit(connection, now), now if over else aged)
    first = _first(connection, rule, reached)
    if first is None or first >= until:
        return None
    width = max((until - first) // _STRETCHES[over], SECOND)
    return first, min(first + width, until)


def _first(connection: Connection, rule: Rule, reached: int) -> int | None:
    """The next instant at which there is anything."""
    columns = [requests.c.received_wall, steps.c.ended_wall]
    if not rule.keep_runs:
        columns.append(runs.c.ended_wall)
    found = [connection.execute(select(func.min(column)).where(column >= reached)).scalar() for column in columns]
    return min((wall for wall in found if wall is not None), default=None)


def _empty(connection: Connection, rule: Rule, walk: Walk, start: int, end: int) -> Iterator[None]:
    before = walk.gone.copy()
    for run_id, began in _ended_in(connection, rule, start, end):
        yield from _run(connection, walk, run_id)
        yield from _steps(connection, rule, walk, began, start, end)  # those before were looked at while it stood there
    yield from _requests(connection, walk, start, end)
    yield from _steps(connection, rule, walk, start, end, end)
    if walk.gone != before:
        purged.note(connection, rule.cause, end, walk.gone["requests"] - before["requests"])


def _ended_in(connection: Connection, rule: Rule, start: int, end: int) -> list[tuple[str, int]]:
    table = runs.c
    at = func.coalesce(table.ended_wall, table.created_wall)
    question = select(table.id, func.coalesce(table.started_wall, table.created_wall)).where(ended(end, rule), at >= start)
    return [(run_id, began) for run_id, began in connection.execute(question.order_by(at, table.id))]


def _run(connection: Connection, walk: Walk, run_id: str) -> Generator[None, None, None]:
    removed = yield from run_rows.remove(connection, run_id)
    walk.taken("runs", 1)
    walk.taken("requests", removed)


def _requests(connection: Connection, walk: Walk, start: int, end: int) -> Iterator[None]:
    """Those of no run, of a stretch."""
    table, after = requests.c, (start - 1, "")
    question = select(table.received_wall, table.id, table.run, table.state).order_by(table.received_wall, table.id)
    while True:
        here = question.where(tuple_(table.received_wall, table.id) > after, table.received_wall < end)
        rows = connection.execute(here.limit(_LOOKED_AT)).all()
        named = {row.run for row in rows if row.run is not None}
        known = set(connection.execute(select(runs.c.id).where(runs.c.id.in_(sorted(named)))).scalars())
        ids = [row.id for row in rows if row.state == "finished" and row.run not in known]
        for some in (ids[n : n + _PIECE] for n in range(0, len(ids), _PIECE)):
            connection.execute(delete(request_events).where(request_events.c.request_id.in_(some)))
            connection.execute(delete(requests).where(table.id.in_(some)))
            walk.taken("requests", len(some))
            if walk.turn_over():
                yield
        if len(rows) < _LOOKED_AT:
            return
        after = (rows[-1].received_wall, rows[-1].id)
        if walk.turn_over():
            yield


def _steps(connection: Connection, rule: Rule, walk: Walk, start: int, end: int, before: int) -> Iterator[None]:
    """Those that ended in [start, end) and in the window of no run that stays when all before `before` goes."""
    table, after = steps.c, (start - 1, 0, 0)
    key = tuple_(table.ended_wall, table.boot, table.seq)
    question = select(table.ended_wall, table.boot, table.seq).order_by(table.ended_wall, table.boot, table.seq)
    while True:
        here = question.where(table.ended_wall >= after[0], key > after, table.ended_wall < end)
        rows = connection.execute(here.limit(_LOOKED_AT)).all()
        kept = kept_windows(connection, before, rule, rows[0].ended_wall) if rows else []
        free = [row for row in rows if row.boot >= 0 and not any(first <= row.ended_wall <= last for first, last in kept)]
        for some in (free[n : n + _PIECE] for n in range(0, len(free), _PIECE)):
            for boot in sorted({row.boot for row in some}):
                mine = table.seq.in_([row.seq for row in some if row.boot == boot])
                walk.taken("steps", connection.execute(delete(steps).where(table.boot == boot, mine)).rowcount)
            if walk.turn_over():
                yield
        if len(rows) < _LOOKED_AT:
            return
        after = _beyond(kept, tuple(rows[-1]))
        if walk.turn_over():
            yield


def _beyond(kept: list[tuple[int, int]], last: tuple[int, int, int]) -> tuple[int, int, int]:
    """Where to look next: behind the window that the last row lies in, for all of that stays."""
    ends = [end for start, end in kept if start <= last[0] <= end]
    return (max(ends), 1 << 62, 0) if ends else last
