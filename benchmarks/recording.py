"""What recording costs: `python -m benchmarks.recording`. One process, no web; the events are those of a real core.

lifecycle   rows/s through the writer (accepts and events in, rows of requests, request_events and steps committed out),
            beside the very same rows by sqlite3.executemany into the same tables, in the same run: the floor
delete      the longest wait of an accept (one each 5 ms) while a run of 200,000 rows is deleted, beside the same without
"""

from __future__ import annotations

import argparse
import gc
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from app.store import client_rows, migrate, runs  # noqa: E402
from app.store.accepted import AcceptedRow  # noqa: E402
from app.store.writer import Writer  # noqa: E402
from benchmarks.measure import floor_ms, percentile, report  # noqa: E402
from benchmarks.rig.lifecycles import Lives, Told  # noqa: E402

TABLES = ("requests", "request_events", "steps")
PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "cache_size=-32768", "temp_store=MEMORY", "wal_autocheckpoint=400")
SLOTS = 64
RUN = "run_deleted"
PROBE_S = 0.005
_MEDIANS = ("rows_s", "sqlite3_rows_s", "ratio", "cpu_us_per_row", "sqlite3_cpu_us_per_row")


class Records:
    """A fresh database and its writer."""

    def __init__(self, path: Path) -> None:
        self.path, self.url = path, f"sqlite:///{path}"
        migrate.upgrade(self.url)
        self.failures: list[Exception] = []
        self.writer = Writer(self.url, spawn=_spawn, notify=lambda function: function(), new_queue=SimpleQueue)
        self.writer.start()

    def lives(self, count: int, prefix: str, run: str | None = None) -> list[Told]:
        """So many lives, made beforehand: making them is not what is measured."""
        place = {"wall": time.time_ns(), "mono": time.monotonic_ns()}
        return list(Lives(count, SLOTS, boot=self.writer.next_boot(), run=run, prefix=prefix, **place))

    def record(self, told: list[Told]) -> float:
        """Hand all of it over, as fast as the writer takes it; seconds until the last of it is committed."""
        began = time.perf_counter()
        for each in told:
            while self.writer.full:
                time.sleep(0.001)
            for row in each.accepts:
                self.writer.accept(row, self._done)
            if each.events:
                self.writer.events(each.events)
        self.job(lambda connection: None)
        return time.perf_counter() - began

    def job(self, work: Any) -> Any:
        """A job of the writer, waited for."""
        came: SimpleQueue[tuple[Any, Exception | None]] = SimpleQueue()
        self.writer.job(work, lambda result, error: came.put((result, error)))
        result, error = came.get()
        if error is not None:
            raise error
        return result

    def rows(self) -> dict[str, int]:
        """How many rows each table holds."""
        with sqlite3.connect(self.path) as connection:
            return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES}

    def close(self) -> None:
        """End the writer; nothing may have gone wrong."""
        self.writer.close(60)
        stats = self.writer.stats()
        if self.failures or stats.errors or stats.lost:
            raise RuntimeError(f"the writer failed: {self.failures[:1]} {stats}")

    def _done(self, error: Exception | None) -> None:
        if error is not None:
            self.failures.append(error)


def lifecycle(count: int, folder: Path) -> dict[str, float]:
    """Rows/s of the writer and of plain sqlite3."""
    records = Records(folder / "writer.db")
    told = records.lives(count, "req_")
    gc.collect()
    gc.freeze()  # a server does not hold its next minutes in memory
    cpu = time.process_time()
    took = records.record(told)
    cpu = time.process_time() - cpu
    gc.unfreeze()
    commits = records.writer.stats().commits
    records.close()
    rows = sum(records.rows().values())
    plain, plain_cpu = plain_sqlite(records.path, folder / "plain.db", commits)
    ours = rows / took
    return {
        "rows": rows,
        "rows_s": round(ours),
        "cpu_us_per_row": round(cpu / rows * 1e6, 2),
        "commits": commits,
        "sqlite3_rows_s": round(plain),
        "sqlite3_cpu_us_per_row": round(plain_cpu * 1e6, 2),
        "ratio": round(ours / plain, 3),
        "floor_ms": floor_ms(1),
    }


def plain_sqlite(source: Path, target: Path, commits: int) -> tuple[float, float]:
    """The rows of `source` by executemany, in as many commits: rows/s, and CPU seconds a row."""
    migrate.upgrade(f"sqlite:///{target}")
    with sqlite3.connect(source) as connection:
        tables = {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}
    connection = sqlite3.connect(target, isolation_level=None)
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    began, cpu = time.perf_counter(), time.process_time()
    for part in range(commits):
        connection.execute("BEGIN IMMEDIATE")
        for table, rows in tables.items():
            piece = rows[len(rows) * part // commits : len(rows) * (part + 1) // commits]
            if piece:
                connection.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(piece[0]))})", piece)
        connection.execute("COMMIT")
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    connection.close()
    count = sum(map(len, tables.values()))
    return count / took, cpu / count


def deletion(rows: int, folder: Path) -> dict[str, Any]:
    """Accepts beside a deletion."""
    records = Records(folder / "deletion.db")
    new = runs.NewRun(RUN, time.time_ns(), status="finished")
    records.job(partial(runs.create, run=new))
    requests = rows // 6  # a request's row, four events, the client's row
    records.record(records.lives(requests, "run_", RUN))
    lines = [client_rows.row(RUN, _client_line(n)) for n in range(requests)]
    for start in range(0, requests, 500):
        records.job(partial(client_rows.add, run=RUN, rows=lines[start : start + 500]))
    quiet = Probe(records, "quiet_")
    time.sleep(3.0)
    without = quiet.stop()
    probe = Probe(records, "busy_")
    began = time.perf_counter()
    deleted = records.job(partial(runs.remove, run_id=RUN))
    took = time.perf_counter() - began
    during = probe.stop()
    records.close()
    return {
        "rows": requests * 6,
        "deleted_requests": deleted,
        "took_s": round(took, 2),
        "accept_ms_without": _waits(without),
        "accept_ms_during": _waits(during),
        "longest_delay_ms": round(max(during) - statistics.median(without), 2),
        "floor_ms": floor_ms(1),
    }


class Probe:
    """One accept each PROBE_S until stopped, from a thread of its own; how long each waited for its commit, ms."""

    def __init__(self, records: Records, prefix: str) -> None:
        self._records, self._prefix = records, prefix
        self._waits: list[float] = []
        self._going = True
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> list[float]:
        """The waits."""
        self._going = False
        self._thread.join()
        return self._waits

    def _run(self) -> None:
        n = 0
        while self._going:
            n += 1
            came: SimpleQueue[Exception | None] = SimpleQueue()
            now = time.monotonic_ns()
            row = AcceptedRow(f"{self._prefix}{n}", now, time.time_ns(), "/v1/completions")
            began = time.perf_counter()
            self._records.writer.accept(row, came.put)
            if (error := came.get()) is not None:
                raise error
            self._waits.append((time.perf_counter() - began) * 1e3)
            time.sleep(PROBE_S)


def _waits(values: list[float]) -> dict[str, float]:
    figures = {"p50": percentile(values, 0.5), "p99": percentile(values, 0.99), "max": max(values)}
    return {"n": len(values)} | {name: round(value, 2) for name, value in figures.items()}


def _client_line(n: int) -> dict[str, Any]:
    times = {"due_ms": n, "sent_ms": n, "first_ms": n + 5.0, "last_ms": n + 50.0, "end_ms": n + 50.0}
    gaps = [round(1 + (n + i) % 7 / 10, 3) for i in range(24)]
    return {
        "id": f"r-{n}", "n": n, "tenant": "t", "kind": "interactive", **times, "status": "ok", "http": 200, "error": None,
        "prompt_tokens": 64, "output_tokens": 25, "estimated": False, "gaps_ms": gaps, "server_id": f"run_{n:026d}",
        "attempts": 1,
    }  # fmt: skip


def _spawn(function: Any) -> None:
    threading.Thread(target=function, daemon=True).start()


def main() -> None:
    """Parse, measure, print."""
    sys.setswitchinterval(0.0005)  # as app/serve.py does
    gc.set_threshold(20_000)  # likewise
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("lifecycle", "delete"))
    parser.add_argument("--requests", type=int, default=10_000, help="lives in one round of lifecycle")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=200_000, help="of the run that is deleted")
    args = parser.parse_args()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        if args.only != "delete":
            rounds = []
            for n in range(args.rounds):
                (place := Path(folder) / str(n)).mkdir()
                rounds.append(lifecycle(args.requests, place))
            middle = {name: statistics.median(each[name] for each in rounds) for name in _MEDIANS}
            figures["lifecycle"] = {"median": middle, "rounds": rounds}
        if args.only != "lifecycle":
            figures["delete"] = deletion(args.rows, Path(folder))
    report("recording", figures)


if __name__ == "__main__":
    main()
