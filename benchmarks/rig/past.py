"""A made history, in bulk: requests by the million, some runs long, all of it written through the tables' own columns.

Two fifths of the requests belong to each of two long runs, the rest to runs of RUN_ROWS; four tenants, log-normal times, 3 %
refused without any. The long runs and one short one have the client's rows too, with a gap for each token after the first (at
most GAPS of them), and steps. Seeded: the same count makes the same file.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

from sqlalchemy import Table

from app.store import migrate
from app.store.models import client_requests, requests, run_columns, runs, steps
from app.store.packing import pack_gaps, pack_slices
from app.store.run_columns import IDS, KEYS, Part, pack

RUN_ROWS = 10_000
LONG = ("run_long_a", "run_long_b")
SHORT = "run_0"
BASE = 1_790_000_000 * 10**9
NS_A_ROW = 1_000_000  # between two arrivals
ROWS_A_STEP = 20
GAPS = 39
_REQUESTS = (
    "id", "run", "client_request_id", "endpoint", "stream", "model", "tenant", "kind", "priority", "policy", "boot",
    "sequences", "state", "finish", "received_at", "received_wall", "scheduled_at", "first_token_at", "finished_at",
    "prompt_tokens", "cached_tokens", "output_tokens", "queue_ms", "ttft_ms", "tpot_ms", "e2e_ms",
    "wait_slots_ns", "top_wait", "preemptions",
)  # fmt: skip
_CLIENT = (
    "run", "client_request_id", "n", "tenant", "kind", "due_ms", "sent_ms", "first_ms", "last_ms", "end_ms", "status", "http",
    "prompt_tokens", "output_tokens", "gaps", "server_id", "attempts",
)  # fmt: skip
_STEPS = (
    "boot", "seq", "step", "started_at", "ended_at", "ended_wall", "token_budget", "prefill_tokens", "decode_tokens", "binding",
    "waiting", "running", "preempted", "blocks_free", "host_late_ns", "slices",
)  # fmt: skip
_COLUMNS = ("run", *(field.name for field in fields(Part)))
_RUNS = ("id", "status", "external", "foreign_target", "created_wall", "started_wall", "ended_wall", "scenario", "seed")
_NO_SLICES = pack_slices((), ())
Row = tuple[Any, ...]


def run_of(n: int, count: int) -> str:
    """The run of the n-th request."""
    long = 2 * count // 5
    return LONG[n // long] if n < 2 * long else f"run_{(n - 2 * long) // RUN_ROWS}"


def fill(path: Path, count: int) -> float:
    """The schema and the rows; seconds."""
    migrate.upgrade(f"sqlite:///{path}")
    began, told = time.perf_counter(), random.Random(1)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        for start in range(0, count, 50_000):
            made = [_request(told, n, count) for n in range(start, min(count, start + 50_000))]
            _insert(connection, requests, _REQUESTS, made)
            _insert(connection, client_requests, _CLIENT, [_seen(told, row) for row in made if row[1] in (*LONG, SHORT)])
        _insert(connection, steps, _STEPS, _steps(count))
        _insert(connection, runs, _RUNS, _runs(count))
        _insert(connection, run_columns, _COLUMNS, _columns(connection))
    connection.close()
    return round(time.perf_counter() - began, 1)


def _columns(connection: sqlite3.Connection) -> Iterator[Row]:
    """Of every run, as a server keeps them at its end."""
    names = (IDS, *KEYS)
    for (run,) in connection.execute("SELECT id FROM runs").fetchall():
        found = connection.execute(f"SELECT {', '.join(names)} FROM requests WHERE run = ? ORDER BY id", (run,))
        for part in pack(dict(zip(names, row, strict=True)) for row in found):
            yield run, *astuple(part)


def _insert(connection: sqlite3.Connection, table: Table, names: tuple[str, ...], rows: Any) -> None:
    assert all(name in table.c for name in names)
    marks = ", ".join("?" * len(names))
    connection.executemany(f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({marks})", rows)


def _request(told: random.Random, n: int, count: int) -> Row:
    refused = told.random() < 0.03
    prompt, output, at = told.randint(8, 2000), told.randint(1, GAPS + 1), n * NS_A_ROW
    queue, prefill, tpot = told.lognormvariate(4, 2), prompt / 20, told.lognormvariate(2.5, 0.4)
    e2e = queue + prefill + tpot * (output - 1)
    times = (None, None, None, None) if refused else (queue, queue + prefill, tpot if output > 1 else None, e2e)
    instants = (None, None) if refused else (at + int(queue * 1e6), at + int((queue + prefill) * 1e6))
    ended = "rejected" if refused else told.choice(("stop", "length"))
    return (
        f"req_{n:010d}", run_of(n, count), f"c-{n}", "/v1/completions", 1, "m", told.choice("aaaabbbccd"), "interactive", 0,
        "fcfs", 1, 1, "finished", ended, at, BASE + at, *instants, at + int(e2e * 1e6), prompt, 0, 0 if refused else output,
        *times, None if refused else int(queue * 1e6), None if refused else "slots", told.randrange(4) // 3,
    )  # fmt: skip


_BLOBS = [pack_gaps([8.0 + (n * 7 + place * 13) % 90 / 10 for place in range(n)]) for n in range(GAPS + 1)]


def _seen(told: random.Random, row: Row) -> Row:
    """The client's row of a request."""
    found = dict(zip(_REQUESTS, row, strict=True))
    sent, ok = found["received_at"] / 1e6, found["finish"] != "rejected"
    first = sent + 0.5 + (found["ttft_ms"] or 0.0)
    last = sent + 0.5 + (found["e2e_ms"] or 0.0)
    times = (first, last, last + 0.1) if ok else (None, None, sent + 1)
    output = found["output_tokens"]
    return (
        found["run"], found["client_request_id"], int(found["id"][4:]), found["tenant"], "interactive", sent - told.random(),
        sent, *times, "ok" if ok else "shed", 200 if ok else 429, found["prompt_tokens"], output if ok else None,
        _BLOBS[output - 1] if ok else None, found["id"], 1,
    )  # fmt: skip


def _steps(count: int) -> Iterator[Row]:
    """Of everything, one each ROWS_A_STEP arrivals."""
    told, span = random.Random(3), ROWS_A_STEP * NS_A_ROW
    for seq in range(count // ROWS_A_STEP):
        at = seq * span
        taken = at + span // 2 + told.randrange(span // 2)
        prefill = told.choice((0, 0, 512))
        yield (
            1, seq, seq, at, taken, BASE + taken, 8192, prefill, 32, "slots" if seq % 3 else "token_budget",
            told.randrange(40), 32, 0, 1000, 0, _NO_SLICES,
        )  # fmt: skip


def _runs(count: int) -> Iterator[Row]:
    walls: dict[str, list[int]] = {}
    for n in range(0, count, RUN_ROWS // 10):
        walls.setdefault(run_of(n, count), []).append(BASE + n * NS_A_ROW)
    for run, mine in walls.items():
        end = mine[-1] + RUN_ROWS // 10 * NS_A_ROW
        yield run, "finished", 0, 0, mine[0], mine[0], end, "made", 1
