"""Rows of load runs: made, moved along their life, deleted. Writing functions are jobs for the Writer; no thread here.

pending → running → draining → finished | failed | stopped, forward only.
Invariant: `status` moves along LAWFUL only; a run that has ended keeps its status, its verdict may still be set.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Column, Connection, delete, func, insert, select, update

from app.store import lives, run_columns
from app.store.errors import QueryError, StoreError
from app.store.instants import iso
from app.store.models import boots, client_requests, request_events, requests, run_summaries, runs, settings_changes, steps
from app.store.own_lives import own_lives
from app.store.purged import absent
from app.store.verdict import bound_by

LAWFUL: dict[str, tuple[str, ...]] = {
    "pending": ("running", "draining", "finished", "failed", "stopped"),  # a short one may end before it was seen to run
    "running": ("draining", "finished", "failed", "stopped"),
    "draining": ("finished", "failed", "stopped"),
    "finished": (),
    "failed": (),
    "stopped": (),
}
ACTIVE = tuple(status for status, moves in LAWFUL.items() if moves)
_PIECE = 20  # rows of `requests` or `client_requests` deleted by one statement
_TURN_S = 0.002  # how long a transaction goes on with pieces: accepts wait meanwhile


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run about to begin. `foreign_target`: aimed at another server, so that no server rows are expected."""

    id: str
    created_wall: int
    scenario: str | None = None
    name: str | None = None
    parameters: dict[str, Any] | None = None
    seed: int | None = None
    scheduler: dict[str, Any] | None = None
    settings: dict[str, Any] | None = None
    target: str | None = None
    external: bool = False
    foreign_target: bool = False
    versions: dict[str, Any] | None = None
    duration_s: float | None = None
    processes: int | None = None
    status: str = "pending"
    started_wall: int | None = None


def create(connection: Connection, run: NewRun) -> dict[str, Any]:
    """Insert the run; its JSON."""
    connection.execute(insert(runs), [asdict(run)])
    return get(connection, run.id)


def change(connection: Connection, run_id: str, **columns: Any) -> dict[str, Any]:
    """Set columns of a run; an unlawful move of `status` raises StoreError. Returns its JSON."""
    status = columns.get("status")
    if status is not None:
        before = _row(connection, run_id)["status"]
        if status != before and status not in LAWFUL[before]:
            raise StoreError(f"run {run_id} is {before}: it cannot become {status}", "status")
    connection.execute(update(runs).where(runs.c.id == run_id).values(**columns))
    return get(connection, run_id)


def remove(connection: Connection, run_id: str) -> Generator[None, None, int]:
    """Delete a run that has ended, its requests, their events and the client's rows, slice by slice; requests deleted.

    What is kept of its keys goes first: such columns are believed while there are as many requests as they have values. The
    run's row goes last, so that a deletion that was cut short can be repeated.
    """
    if _row(connection, run_id)["status"] in ACTIVE:
        raise StoreError(f"run {run_id} is active: stop it first (`batchscope runs stop {run_id}`)", "run")
    yield from run_columns.forget(connection, run_id)
    deleted, ends_at = 0, time.monotonic() + _TURN_S
    for count in _pieces(connection, run_id):
        deleted += count
        if time.monotonic() > ends_at:
            yield
            ends_at = time.monotonic() + _TURN_S
    connection.execute(delete(run_summaries).where(run_summaries.c.run == run_id))
    connection.execute(delete(runs).where(runs.c.id == run_id))
    return deleted


def _pieces(connection: Connection, run_id: str) -> Iterator[int]:
    """Delete what belongs to a run piece by piece; each time, how many requests went."""
    mine, lines = requests.c.run == run_id, client_requests.c
    while ids := list(connection.execute(select(requests.c.id).where(mine).limit(_PIECE)).scalars()):
        connection.execute(delete(request_events).where(request_events.c.request_id.in_(ids)))
        connection.execute(delete(requests).where(requests.c.id.in_(ids)))
        yield len(ids)
    named = select(lines.client_request_id).where(lines.run == run_id).limit(_PIECE)
    while ids := list(connection.execute(named).scalars()):
        connection.execute(delete(client_requests).where(lines.run == run_id, lines.client_request_id.in_(ids)))
        yield 0
    for boot in own_lives(_row(connection, run_id)["versions"]) or ():
        yield from _life_pieces(connection, boot)


def _life_pieces(connection: Connection, boot: int) -> Iterator[int]:
    """The steps of a simulated or imported run are nobody else's; those of a life that was lived here may be."""
    some = select(steps.c.seq).where(steps.c.boot == boot).limit(_PIECE)
    while seqs := list(connection.execute(some).scalars()):
        connection.execute(delete(steps).where(steps.c.boot == boot, steps.c.seq.in_(seqs)))
        yield 0
    for table in (settings_changes, boots):
        connection.execute(delete(table).where(table.c.boot == boot))


def get(connection: Connection, run_id: str) -> dict[str, Any]:
    """One run as JSON; raises QueryError (404) when there is none."""
    return as_json(_row(connection, run_id))


def listing(connection: Connection, limit: int = 100, before: str | None = None) -> dict[str, Any]:
    """Newest first: {items, next_before, total}. `before`: the id of the last run seen. Items lack the stored report;
    `stale`: rows have come or gone since their verdict was kept; `engine`: what computed, see lives.py; `bound`: for what its
    requests waited, as its report says first."""
    question = select(*[column for column in runs.c if column.name != "report"])
    question = question.order_by(runs.c.created_wall.desc(), runs.c.id.desc()).limit(limit + 1)
    if before is not None:
        last = _row(connection, before)
        earlier = (runs.c.created_wall < last["created_wall"]) | (
            (runs.c.created_wall == last["created_wall"]) & (runs.c.id < last["id"])
        )
        question = question.where(earlier)
    rows = [dict(row) for row in connection.execute(question).mappings()]
    total = connection.execute(select(func.count()).select_from(runs)).scalar_one()
    changed, bound = _by_reports(connection, [row["id"] for row in rows[:limit]])
    engines = lives.of_runs(connection, rows[:limit])
    page = [
        as_json(row) | {"stale": row["id"] in changed, "engine": engines[row["id"]], "bound": bound.get(row["id"])}
        for row in rows[:limit]
    ]
    return {"items": page, "next_before": page[-1]["id"] if len(rows) > limit else None, "total": total}


def _by_reports(connection: Connection, ids: list[str]) -> tuple[set[str], dict[str, str | None]]:
    """Which of these runs have other rows than their stored report counted, and what bound each by its report."""
    counted = runs.c.report["reconciliation"]
    columns = (counted["server_rows"].as_integer(), counted["sent"].as_integer(), runs.c.report["waits"], runs.c.verdict)
    kept = connection.execute(select(runs.c.id, *columns).where(runs.c.id.in_(ids))).all()
    now = [_count(connection, column, ids) for column in (requests.c.run, client_requests.c.run)]
    changed = {
        run_id
        for run_id, *counts, _, _ in kept
        if any(was is not None and was != present.get(run_id, 0) for was, present in zip(counts, now, strict=True))
    }
    return changed, {run_id: bound_by(waits or {}) for run_id, *_, waits, verdict in kept if verdict != "invalid"}


def _count(connection: Connection, run: Column[Any], ids: list[str]) -> dict[str, int]:
    return {name: rows for name, rows in connection.execute(select(run, func.count()).where(run.in_(ids)).group_by(run))}


def active(connection: Connection) -> dict[str, Any] | None:
    """The run that is under way, or None."""
    row = connection.execute(select(runs).where(runs.c.status.in_(ACTIVE)).limit(1)).mappings().first()
    return None if row is None else as_json(dict(row))


def as_json(row: dict[str, Any]) -> dict[str, Any]:
    """A row of `runs` as the API shows it: instants as ISO 8601; `simulated`: nothing in it was measured.

    rate_changed: how its load was changed by hand, "rate × 2 at 31.4 s", None where it was not.
    """
    shown: dict[str, Any] = {"simulated": "simulation" in (row["versions"] or {}), "rate_changed": _rate_changed(row)}
    shown |= {name: value for name, value in row.items() if name not in ("created_wall", "started_wall", "ended_wall")}
    instants = {name: iso(row[f"{name}_wall"]) for name in ("created", "started", "ended")}
    return shown | instants


def _rate_changed(row: Mapping[str, Any]) -> str | None:
    changes = (row["progress"] or {}).get("rate_changes") or ()
    return ", ".join(f"rate × {change['factor']:g} at {change['at_s']:.1f} s" for change in changes) or None


def _row(connection: Connection, run_id: str) -> dict[str, Any]:
    row = connection.execute(select(runs).where(runs.c.id == run_id)).mappings().first()
    if row is None:
        raise QueryError(absent(connection, "run", run_id), "run")
    return dict(row)
