"""Steps as columns: which are asked for, and their JSON. Knows no HTTP.

`t` is ms since the engine life's own start (as in the live frames); `boots` says when each life began on the wall clock.
Invariant: the columns of an answer are equally long, and ordered by (boot, seq).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, func, select

from app.store.errors import QueryError
from app.store.filters import limit
from app.store.instants import wall_ns
from app.store.models import boots, runs, steps
from app.store.own_lives import own_lives
from app.store.purged import absent
from scheduler.metrics import WAIT_REASONS

MAX_STEPS = 10_000
_PARAMS = ("run", "since", "until", "boot", "from_seq", "to_seq", "limit")


def steps_json(connection: Connection, params: Mapping[str, str]) -> dict[str, Any]:
    """GET /api/steps: {steps: columns, boots, truncated}; the first `limit` of what was asked."""
    for name in params:
        if name not in _PARAMS:
            raise QueryError(f"unknown parameter {name!r}", name)
    size = limit(params.get("limit"), MAX_STEPS, MAX_STEPS)
    question = select(steps).where(*_conditions(connection, params)).order_by(steps.c.boot, steps.c.seq).limit(size + 1)
    rows = list(connection.execute(question).mappings())
    lives = boots_json(connection, {row["boot"] for row in rows})
    return {"steps": columns(rows[:size], lives), "boots": lives, "truncated": len(rows) > size}


def window(connection: Connection, run_id: str) -> tuple[int, int | None]:
    """(start, end) of a run, epoch ns; the end is None while it runs."""
    row = run_row(connection, run_id)
    return row["started_wall"] or row["created_wall"], row["ended_wall"]


def of_run(connection: Connection, run_id: str) -> ColumnElement[bool]:
    """The steps of a run: those of its window; of one that has lives to itself (simulated, imported), those of its lives."""
    lives = own_lives(run_row(connection, run_id)["versions"])
    return in_window(*window(connection, run_id)) if lives is None else steps.c.boot.in_(lives)


def run_row(connection: Connection, run_id: str) -> RowMapping:
    """The run that is asked about; raises QueryError("run") when there is none."""
    row = connection.execute(select(runs).where(runs.c.id == run_id)).mappings().first()
    if row is None:
        raise QueryError(absent(connection, "run", run_id), "run")
    return row


def in_window(start: int, end: int | None) -> ColumnElement[bool]:
    """Steps that ended here within a window. The sum keeps SQLite from taking the lives' index for it."""
    table = steps.c
    here = and_(table.boot + 0 >= 0, table.ended_wall >= start)
    return here if end is None else and_(here, table.ended_wall <= end)


def boots_json(connection: Connection, numbers: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Lives of the engine by number: wall_ms at t = 0, blocks, runner, hardware, model, settings at start."""
    names = ("boot", "mono", "blocks_total", "block_size", "runner", "hardware", "model", "settings")
    question = select(boots).where(boots.c.boot.in_(sorted(numbers)))
    return {
        row["boot"]: {name: row[name] for name in names} | {"wall_ms": row["wall"] / 1e6}
        for row in connection.execute(question).mappings()
    }


def columns(rows: list[RowMapping], lives: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """The columns of the live frames, and `boot`. kv_used: blocks; NULL where the life is not in the records."""
    present = [reason for reason in WAIT_REASONS if any(reason in (row["waiting_by_reason"] or {}) for row in rows)]
    copied = {"boot": "boot", "seq": "seq", "step": "step", "prefill": "prefill_tokens", "decode": "decode_tokens"}
    copied |= {"budget": "token_budget", "running": "running", "preempted": "preempted"}
    copied |= {"binding": "binding", "waiting": "waiting"}
    shown: dict[str, Any] = {name: [row[column] for row in rows] for name, column in copied.items()}
    shown["t"] = [since_boot(lives, row["boot"], row["ended_at"]) for row in rows]
    shown["ms"] = [round((row["ended_at"] - row["started_at"]) / 1e6, 3) for row in rows]
    shown["by_reason"] = {reason: [(row["waiting_by_reason"] or {}).get(reason, 0) for row in rows] for reason in present}
    totals = [lives.get(row["boot"], {}).get("blocks_total") for row in rows]
    shown["kv_used"] = [None if total is None else total - row["blocks_free"] for total, row in zip(totals, rows, strict=True)]
    return shown


def since_boot(lives: Mapping[int, Mapping[str, Any]], boot: int, at: int) -> float | None:
    """ms since the life began."""
    life = lives.get(boot)
    return None if life is None else round((at - life["mono"]) / 1e6, 3)


def _conditions(connection: Connection, params: Mapping[str, str]) -> list[ColumnElement[bool]]:
    table, found = steps.c, list[ColumnElement[bool]]()
    if params.get("run"):
        found.append(of_run(connection, params["run"]))
    if params.get("since"):
        found.append(table.ended_wall >= wall_ns(params["since"], "since"))
    if params.get("until"):
        found.append(table.ended_wall < wall_ns(params["until"], "until"))
    seqs = [name for name in ("from_seq", "to_seq") if params.get(name)]
    if params.get("boot"):
        found.append(table.boot == limit(params["boot"], (1 << 31) - 1, param="boot"))
    elif seqs or not found:  # a seq means nothing without its life: the newest one
        found.append(table.boot == select(func.max(table.boot)).where(table.boot >= 0).scalar_subquery())
    for name in seqs:
        bound = limit(params[name], 1 << 53, param=name)
        found.append(table.seq >= bound if name == "from_seq" else table.seq <= bound)
    return found
