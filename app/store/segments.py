"""Timeline bars from the records: the phases of the requests of a window. Knows no HTTP and no pixel.

Phases as on the live page: queued (slot -1), prefill, decode, preempted (slot -1). Times are ms since the engine life's
own start; `boots` says when that was, and `start_ms` where the run's own clock begins (of no run: the newest life's). A
resumed request prefills until the chunk that gave it its next token. `lane` is the row to draw a bar in (lanes.py).
Invariant: the bars of one sequence do not overlap, and a closed one ends where the next begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, func, select

from app.store.errors import QueryError
from app.store.filters import limit
from app.store.instants import wall_ns
from app.store.lanes import ROWS, lay_out
from app.store.models import request_events, requests, runs, steps
from app.store.packing import unpack_slices
from app.store.step_rows import boots_json, run_row, since_boot, window

MAX_BARS = 20_000
MAX_REQUESTS = 5_000
_LAST_NS = 60 * 10**9
_PARAMS = ("run", "since", "until", "rows", "max")


@dataclass(slots=True)
class Bar:
    """One phase of one sequence; instants in monotonic ns, `end` None while open."""

    request: str
    boot: int
    number: int
    slot: int
    phase: str
    start: int
    tenant: str
    end: int | None = None
    reason: str | None = None
    lane: int = -1


def segments_json(connection: Connection, params: Mapping[str, str]) -> dict[str, Any]:
    """GET /api/segments: {segments: columns, boots, groups, start_ms, end_ms, total, truncated, requests_truncated}.

    `groups`: [{label, lanes}] from the top. Over `max` bars the shortest are left out, over 5,000 requests the latest.
    """
    for name in params:
        if name not in _PARAMS:
            raise QueryError(f"unknown parameter {name!r}", name)
    rows = params.get("rows") or "slot"
    if rows not in ROWS:
        raise QueryError(f"rows must be one of {', '.join(ROWS)}, not {rows!r}", "rows")
    most = limit(params.get("max"), MAX_BARS, 5_000, "max")
    since, until = _window(connection, params)
    ids = list(connection.execute(_requests(params, since, until)).scalars())
    if not ids and params.get("run"):
        run_row(connection, params["run"])  # there may be requests that name a run which nobody registered, but not neither
    bars = bars_of(connection, ids[:MAX_REQUESTS])
    lives = boots_json(connection, {bar.boot for bar in bars})
    groups = lay_out(bars, rows)  # before any is left out: a row stays where it is as far as it can
    bars = [bar for bar in bars if _seen(bar, lives, since, until)]
    total = len(bars)
    if total > most:
        bars = sorted(bars, key=lambda bar: -_length(bar))[:most]
    bars.sort(key=lambda bar: (bar.boot, bar.start, bar.number))
    cut = len(ids) > MAX_REQUESTS
    start, end = span_ms(connection, params.get("run"), lives)
    told = {"start_ms": start, "end_ms": end, "total": total, "truncated": cut or total > most, "requests_truncated": cut}
    return {"segments": _columns(bars, lives), "boots": lives, "rows": rows, "groups": groups} | told


def span_ms(
    connection: Connection, run: str | None, lives: Mapping[int, Mapping[str, Any]]
) -> tuple[float | None, float | None]:
    """(start, end) of a run's own clock, wall ms. A simulated run begins with its life, which has a clock of its own.

    Of no run, or one that nobody registered: the start of the newest life. The end is None while it goes on.
    """
    row = None if not run else connection.execute(select(runs).where(runs.c.id == run)).mappings().first()
    if row is None or "simulation" in (row["versions"] or {}):
        return (lives[max(lives)]["wall_ms"] if lives else None), None
    start, end = window(connection, row["id"])
    return start / 1e6, None if end is None else end / 1e6


def _window(connection: Connection, params: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Wall ns; of no run and no window the newest minute that was lived."""
    since = wall_ns(params["since"], "since") if params.get("since") else None
    if since is None and not params.get("run"):
        newest = connection.execute(select(func.max(steps.c.ended_wall)).where(steps.c.boot >= 0)).scalar()
        since = None if newest is None else newest - _LAST_NS
    return since, wall_ns(params["until"], "until") if params.get("until") else None


def _requests(params: Mapping[str, str], since: int | None, until: int | None) -> Select[Any]:
    """Ids of the requests that were alive in the window."""
    table = requests.c
    question = select(table.id).where(table.boot.is_not(None)).order_by(table.received_wall, table.id).limit(MAX_REQUESTS + 1)
    if params.get("run"):
        question = question.where(table.run == params["run"])
    else:
        question = question.where(table.boot >= 0)  # a simulated life has a clock of its own: ask for its run
    if until is not None:
        question = question.where(table.received_wall < until)
    if since is not None:
        ended = table.received_wall - table.received_at + table.finished_at
        question = question.where((ended > since) | ((table.finished_at.is_(None)) & (table.state != "finished")))
    return question


def _seen(bar: Bar, lives: Mapping[int, Mapping[str, Any]], since: int | None, until: int | None) -> bool:
    """Is any of it in the window? Yes where its life is not in the records."""
    life = lives.get(bar.boot)
    if life is None:
        return True
    began = int(life["wall_ms"] * 1e6) - life["mono"]
    late = until is not None and began + bar.start >= until
    return not late and (since is None or bar.end is None or began + bar.end >= since)


def bars_of(connection: Connection, ids: list[str]) -> list[Bar]:
    """The phases of these requests, in no order that matters."""
    bars: list[Bar] = []
    resumed: list[tuple[Bar, int]] = []
    table = request_events.c
    for start in range(0, len(ids), 500):
        question = select(request_events).where(table.request_id.in_(ids[start : start + 500]))
        question = question.order_by(table.sequence_id, table.terminal, table.boot, table.seq)  # the end may be the web's own
        _fold(connection.execute(question).mappings(), bars, resumed)
    if resumed:
        _split_resumed(connection, bars, resumed)
    return bars


def _fold(events: Iterable[RowMapping], bars: list[Bar], resumed: list[tuple[Bar, int]]) -> None:
    current: Bar | None = None
    tenant = ""
    for event in events:
        kind, data, at = event["kind"], event["data"] or {}, event["at"]
        if kind == "RequestQueued":
            tenant = data["tenant"]
            current = Bar(event["sequence_id"], event["boot"], event["seq"], -1, "queued", data["received_at"], tenant)
            bars.append(current)
        elif current is None or current.end is not None:
            continue  # rejected before it was queued: no phase to draw
        elif kind == "RequestFinished":
            unknown = data.get("detail") == "web_crash"
            current.end, current.reason = (current.start if unknown else max(at, current.start)), data["reason"]
        elif kind in ("RequestScheduled", "FirstToken", "RequestPreempted"):
            current.end = at
            slot = data.get("slot", current.slot) if kind != "RequestPreempted" else -1
            phase = {"RequestScheduled": "prefill", "FirstToken": "decode", "RequestPreempted": "preempted"}[kind]
            current = Bar(current.request, current.boot, current.number, slot, phase, at, tenant)
            bars.append(current)
            if data.get("resumed"):
                resumed.append((current, event["seq"]))


def _split_resumed(connection: Connection, bars: list[Bar], resumed: list[tuple[Bar, int]]) -> None:
    """After a preemption the bar says prefill to its end; the steps tell when it was caught up again."""
    for boot in sorted({bar.boot for bar, _ in resumed}):
        mine = [(bar, seq) for bar, seq in resumed if bar.boot == boot]
        caught_up = _catch_ups(connection, boot, min(seq for _, seq in mine), {bar.number for bar, _ in mine})
        for bar, seq in mine:
            at = next((ended for step, ended in caught_up.get(bar.number, ()) if step > seq), None)
            if at is None or (bar.end is not None and at >= bar.end):
                continue
            bars.append(Bar(bar.request, boot, bar.number, bar.slot, "decode", at, bar.tenant, bar.end, bar.reason))
            bar.end, bar.reason = at, None


def _catch_ups(connection: Connection, boot: int, after: int, numbers: set[int]) -> dict[int, list[tuple[int, int]]]:
    """number → (seq, end) of each step whose chunk gave it a token."""
    found: dict[int, list[tuple[int, int]]] = {}
    table = steps.c
    question = select(table.seq, table.ended_at, table.slices).order_by(table.seq)
    rows = connection.execute(question.where(table.boot == boot, table.seq > after, table.prefill_tokens > 0))
    chunks = ((row, piece) for row in rows for piece in unpack_slices(row.slices) if piece.kind == "prefill")
    for row, piece in chunks:
        if piece.emitted and piece.request in numbers:
            found.setdefault(piece.request, []).append((row.seq, row.ended_at))
    return found


def _length(bar: Bar) -> int:
    return 1 << 62 if bar.end is None else bar.end - bar.start


def _columns(bars: list[Bar], lives: Mapping[int, Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {
        "id": [bar.request for bar in bars],
        "boot": [bar.boot for bar in bars],
        "number": [bar.number for bar in bars],
        "slot": [bar.slot for bar in bars],
        "phase": [bar.phase for bar in bars],
        "t0": [since_boot(lives, bar.boot, bar.start) for bar in bars],
        "t1": [None if bar.end is None else since_boot(lives, bar.boot, bar.end) for bar in bars],
        "tenant": [bar.tenant for bar in bars],
        "reason": [bar.reason for bar in bars],
        "lane": [bar.lane for bar in bars],
    }
