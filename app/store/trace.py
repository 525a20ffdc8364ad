"""A run as a trace in Chrome's JSON format, which Perfetto reads: steps and phases as slices, tokens, KV and queue as counters.

Format: "Trace Event Format", the Chromium project. `ts` and `dur` are µs since the run's start. A process is an engine
life; its threads are the steps and the slots. Who waits holds no slot: queued and preempted are async, as they overlap.
Knows no HTTP and holds no connection: the caller fetches page by page.
Invariant: the slices of a thread do not overlap; what is open ends with the last step, and its arguments say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import orjson
from sqlalchemy import Connection, RowMapping, func, select, tuple_

from app.store.errors import QueryError
from app.store.models import requests, steps
from app.store.segments import Bar, bars_of, span_ms
from app.store.step_rows import boots_json, of_run, run_row

Ask = Callable[..., Any]
Event = dict[str, Any]
Key = tuple[int, str] | tuple[int, int]

MEDIA = "application/json"
_REQUESTS, _STEPS = 500, 2_000  # a page
_PARAMS = ("run",)
_STEP_THREAD, _FIRST_SLOT = 1, 2


def stream(ask: Ask, params: Mapping[str, str]) -> Iterator[bytes]:
    """The trace of `run`, in pieces; raises QueryError at once where there is no such run. ask(function, *args) questions."""
    for name in params:
        if name not in _PARAMS:
            raise QueryError(f"unknown parameter {name!r}", name)
    if not params.get("run"):
        raise QueryError("a trace is of one run: say which", "run")
    return _pieces(ask, params["run"], ask(_heads, params["run"]))


def _pieces(ask: Ask, run: str, heads: list[Event]) -> Iterator[bytes]:
    yield b'{"displayTimeUnit":"ms","otherData":' + orjson.dumps({"run": run}) + b',"traceEvents":[\n'
    yield b",\n".join(orjson.dumps(event) for event in heads)
    for page in (_request_page, _step_page):
        after: Key | None = None
        while True:
            events, after = ask(page, run, after)
            if events:
                yield b",\n" + b",\n".join(orjson.dumps(event) for event in events)
            if after is None:
                break
    yield b"\n]}\n"


def _heads(connection: Connection, run: str) -> list[Event]:
    """Names of the processes and threads."""
    run_row(connection, run)
    found: list[Event] = [{"ph": "M", "pid": 0, "tid": 0, "name": "process_name", "args": {"name": "Batchscope"}}]
    asked = select(steps.c.boot, func.max(steps.c.running).label("slots")).where(of_run(connection, run)).group_by(steps.c.boot)
    lives = list(connection.execute(asked.order_by(steps.c.boot)))
    told = boots_json(connection, [row.boot for row in lives])
    for row in lives:
        life = told.get(row.boot, {})
        slots = (life.get("settings") or {}).get("max_num_seqs") or row.slots
        title = f"engine life {row.boot}: {life.get('hardware') or life.get('runner') or 'unknown'}"
        found.append({"ph": "M", "pid": _pid(row.boot), "tid": 0, "name": "process_name", "args": {"name": title}})
        names = ["steps", *(f"slot {slot}" for slot in range(max(slots, row.slots)))]
        found += [
            {"ph": "M", "pid": _pid(row.boot), "tid": _STEP_THREAD + n, "name": "thread_name", "args": {"name": name}}
            for n, name in enumerate(names)
        ]
    return found


def _request_page(connection: Connection, run: str, after: Key | None) -> tuple[list[Event], Key | None]:
    """The phases of the next requests, and the key of the page after it."""
    table = requests.c
    question = select(table.received_wall, table.id).where(table.run == run, table.boot.is_not(None))
    if after is not None:
        question = question.where(tuple_(table.received_wall, table.id) > after)
    rows = list(connection.execute(question.order_by(table.received_wall, table.id).limit(_REQUESTS)))
    bars = bars_of(connection, [row.id for row in rows])
    clock = Clock(connection, run, {bar.boot for bar in bars})
    last = dict(_last_steps(connection, {bar.boot for bar in bars if bar.end is None}))
    events = [event for bar in sorted(bars, key=lambda bar: bar.start) for event in _phase(bar, clock, last)]
    return events, (rows[-1].received_wall, rows[-1].id) if len(rows) == _REQUESTS else None


def _last_steps(connection: Connection, boots: set[int]) -> Iterable[tuple[int, int]]:
    """(boot, end of its last step); what is open ends there."""
    table = steps.c
    for boot in sorted(boots):
        at = connection.execute(select(func.max(table.ended_at)).where(table.boot == boot)).scalar()
        yield boot, 0 if at is None else at


def _phase(bar: Bar, clock: Clock, last: Mapping[int, int]) -> Iterator[Event]:
    if bar.boot not in clock:
        return  # its life is not in the records: nobody knows when that was
    told: Event = {"request": bar.request, "tenant": bar.tenant}
    told |= {"finish": bar.reason} if bar.reason else {}
    end = bar.end
    if end is None:
        end, told["open"] = max(last[bar.boot], bar.start), True
    shared: Event = {"pid": _pid(bar.boot), "name": bar.phase, "args": told}
    if bar.slot >= 0:
        took = (end - bar.start) / 1e3
        yield shared | {
            "ph": "X",
            "cat": "phase",
            "tid": _FIRST_SLOT + bar.slot,
            "ts": clock.us(bar.boot, bar.start),
            "dur": took,
        }
        return
    shared |= {"cat": "waiting", "id": bar.number, "tid": _STEP_THREAD}
    yield shared | {"ph": "b", "ts": clock.us(bar.boot, bar.start)}
    yield shared | {"ph": "e", "ts": clock.us(bar.boot, end), "args": {}}


def _step_page(connection: Connection, run: str, after: Key | None) -> tuple[list[Event], Key | None]:
    table = steps.c
    question = select(steps).where(of_run(connection, run))
    if after is not None:
        question = question.where(tuple_(table.boot, table.seq) > after)
    rows = list(connection.execute(question.order_by(table.boot, table.seq).limit(_STEPS)).mappings())
    clock = Clock(connection, run, {row["boot"] for row in rows})
    events = [event for row in rows if row["boot"] in clock for event in _step(row, clock)]
    return events, (rows[-1]["boot"], rows[-1]["seq"]) if len(rows) == _STEPS else None


def _step(row: RowMapping, clock: Clock) -> Iterator[Event]:
    """A slice, and what the counters say from its start (tokens) and from its end (memory, queue)."""
    boot = row["boot"]
    began, ended = clock.us(boot, row["started_at"]), clock.us(boot, row["ended_at"])
    tokens = {"prefill": row["prefill_tokens"], "decode": row["decode_tokens"]}
    told = {"budget": row["token_budget"], "bound by": row["binding"], **tokens}
    took = (row["ended_at"] - row["started_at"]) / 1e3
    shared: Event = {"pid": _pid(boot), "tid": _STEP_THREAD}
    yield shared | {"ph": "X", "cat": "step", "name": f"step {row['step']}", "ts": began, "dur": took, "args": told}
    yield shared | {"ph": "C", "name": "tokens", "ts": began, "args": tokens}
    total = clock.blocks(boot)
    if total is not None:
        yield shared | {"ph": "C", "name": "KV blocks", "ts": ended, "args": {"used": total - row["blocks_free"]}}
    yield shared | {"ph": "C", "name": "waiting", "ts": ended, "args": {"requests": row["waiting"]}}


class Clock:
    """Instants of engine lives as µs since the run's start. Whole ns until the last division, so that ends meet starts."""

    def __init__(self, connection: Connection, run: str, boots: set[int]) -> None:
        lives = boots_json(connection, boots)
        start, _ = span_ms(connection, run, lives)
        self._lives = lives
        self._offsets: dict[int, int] = {
            boot: round((life["wall_ms"] - (start or 0)) * 1e6) - life["mono"] for boot, life in lives.items()
        }

    def __contains__(self, boot: int) -> bool:
        return boot in self._offsets

    def us(self, boot: int, at: int) -> float:
        """µs; monotonic ns in."""
        return (at + self._offsets[boot]) / 1e3

    def blocks(self, boot: int) -> int | None:
        """KV blocks of the life."""
        total: int | None = self._lives[boot]["blocks_total"]
        return total


def _pid(boot: int) -> int:
    """Lives that were simulated are numbered downwards from -1; a process has no such number, and no run has both."""
    return abs(boot)
