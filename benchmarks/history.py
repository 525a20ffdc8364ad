"""What looking back costs: `python -m benchmarks.history [--rows 1000000]`. One process, the face for readers, a warm file.

The rows are made (seeded): runs of 10,000 requests of four tenants, log-normal times, 3 % refused without any, no steps.
Figures are ms: p50, p95 and the maximum of `--rounds` questions. `first`, `deep` and `filtered` pages have 50 rows; a deep
one begins at a random place. `beside` is a thread that ticks each 10 ms meanwhile: its longest gap is what a stream would wait.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from app.store import keyset, migrate  # noqa: E402
from app.store.facets import facets_json, spread_json  # noqa: E402
from app.store.filters import SORTS, filters, fingerprint, order  # noqa: E402
from app.store.queries import Queries  # noqa: E402
from benchmarks.measure import percentile, report  # noqa: E402

RUN_ROWS = 10_000
BASE = 1_790_000_000 * 10**9
INDEXED = ("received", "ttft_ms", "e2e_ms")  # within a run; across runs only `received`
NAMES = (
    "id", "run", "client_request_id", "endpoint", "stream", "model", "tenant", "kind", "priority", "policy", "sequences",
    "state", "finish", "received_at", "received_wall", "finished_at", "prompt_tokens", "output_tokens", "queue_ms", "ttft_ms",
    "tpot_ms", "e2e_ms", "wait_slots_ns", "top_wait", "preemptions",
)  # fmt: skip
SEARCHES = {
    "tenant": "tenant:b",
    "slow": "ttft>2s",
    "of_a_run": "run:run_3 ttft>500ms",
    "waited": "wait.slots>1s tenant:c",
    "none": "tenant:nobody",
    "text": '"0004242"',
}


def rows(count: int, seed: int = 1) -> Iterator[tuple[Any, ...]]:
    """Requests in order of arrival."""
    told = random.Random(seed)
    for n in range(count):
        refused = told.random() < 0.03
        prompt, output, at = told.randint(8, 2000), told.randint(1, 400), n * 1_000_000
        queue, prefill, tpot = told.lognormvariate(4, 2), prompt / 20, told.lognormvariate(2.5, 0.4)
        e2e = queue + prefill + tpot * output
        times = (None, None, None, None) if refused else (queue, queue + prefill, tpot, e2e)
        ended = "rejected" if refused else told.choice(("stop", "length"))
        yield (
            f"req_{n:010d}", f"run_{n // RUN_ROWS}", f"c-{n}", "/v1/completions", True, "m", told.choice("aaaabbbccd"),
            "interactive", 0, "fcfs", 1, "finished", ended, at, BASE + at, at + int(e2e * 1e6), prompt, output, *times,
            None if refused else int(queue * 1e6), None if refused else "slots", told.randrange(4) // 3,
        )  # fmt: skip


def fill(path: Path, count: int) -> float:
    """The schema and the rows; seconds."""
    migrate.upgrade(f"sqlite:///{path}")
    began = time.perf_counter()
    with sqlite3.connect(path) as connection:
        marks = ", ".join("?" * len(NAMES))
        connection.executemany(f"INSERT INTO requests ({', '.join(NAMES)}) VALUES ({marks})", rows(count))
        runs = [(f"run_{n}", "finished", 0, 0, BASE + n) for n in range(-(-count // RUN_ROWS))]
        connection.executemany(
            "INSERT INTO runs (id, status, external, foreign_target, created_wall) VALUES (?, ?, ?, ?, ?)", runs
        )
    connection.close()
    return round(time.perf_counter() - began, 1)


class Pulse:
    """A thread that wants to run each 10 ms, and the longest it had to wait."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat)

    def __enter__(self) -> Pulse:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        last = time.perf_counter()
        while not self._ended.wait(0.01):
            now = time.perf_counter()
            self.longest, last = max(self.longest, now - last), now


def timed(question: Callable[[], object], rounds: int) -> dict[str, float]:
    """ms; one question beforehand is not counted. cpu: the median of this thread's own, not stretched by a busy machine."""
    question()
    spent, own = [], []
    for _ in range(rounds):
        began, cpu = time.perf_counter(), time.thread_time()
        question()
        spent.append((time.perf_counter() - began) * 1e3)
        own.append((time.thread_time() - cpu) * 1e3)
    wall = {"p50": percentile(spent, 0.5), "p95": percentile(spent, 0.95), "max": max(spent), "cpu": percentile(own, 0.5)}
    return {name: round(value, 2) for name, value in wall.items()}


def places(queries: Queries, sort: str, params: dict[str, str], told: random.Random, last: int) -> Callable[[], object]:
    """Pages that begin at random rows: the cursors are what following pages for hours would have given."""
    asked, sorted_by = filters(params), order(sort)
    mark, column = fingerprint(asked, sorted_by), SORTS[sorted_by.key]

    def cursor() -> str:
        row = f"req_{told.randrange(last):010d}"
        found = queries.ask(
            lambda connection: connection.exec_driver_sql(f"SELECT {column} FROM requests WHERE id = '{row}'").scalar()
        )
        return keyset._encode(keyset.Place(found, row), mark)

    cursors = iter([cursor() for _ in range(1000)])
    return lambda: queries.ask(keyset.page, asked, sorted_by, 50, next(cursors))


def measured(queries: Queries, count: int, rounds: int) -> dict[str, Any]:
    """Every figure."""
    told, of_run = random.Random(2), {"run": "run_3"}
    figures: dict[str, Any] = {"first": {}, "deep": {}, "deep_in_a_run": {}, "filtered": {}, "spread": {}}
    for key in SORTS:
        sort, few = f"-{key}", rounds if key in INDEXED else max(5, rounds // 10)
        figures["first"][sort] = timed(lambda sort=sort: queries.requests({"sort": sort}), few)  # type: ignore[misc]
        figures["deep"][sort] = timed(places(queries, sort, {}, told, count), few)
        figures["deep_in_a_run"][sort] = timed(places(queries, sort, of_run, told, count), few)
    for name, search in SEARCHES.items():
        few = max(5, rounds // 10)
        figures["filtered"][name] = timed(lambda search=search: queries.requests({"q": search}), few)  # type: ignore[misc]
        figures["spread"][name] = timed(lambda search=search: queries.ask(spread_json, {"q": search}), 5)  # type: ignore[misc]
    figures["spread"]["everything"] = timed(lambda: queries.ask(spread_json, {}), 5)
    figures["facets"] = timed(lambda: queries.ask(facets_json, {}), 5)
    figures["facets_of_a_run"] = timed(lambda: queries.ask(facets_json, of_run), 5)
    figures["run_report"] = timed(lambda: queries.report("run_3"), 5)
    figures["sql_mean_by_tenant"] = timed(
        lambda: queries.sql("SELECT tenant, avg(ttft_ms) FROM requests WHERE run = 'run_3' GROUP BY 1"), 10
    )
    return figures


def main() -> None:
    """Fill a temporary file, ask, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.db"
        filled = fill(path, options.rows)
        queries = Queries(f"sqlite:///{path}")
        with Pulse() as pulse:
            figures = measured(queries, options.rows, options.rounds)
        queries.close()
        size = round(path.stat().st_size / 2**20, 1)
    beside = round(pulse.longest * 1e3, 1)
    report("history", {"rows": options.rows, "fill_s": filled, "file_mib": size, "beside_longest_ms": beside, **figures})


if __name__ == "__main__":
    main()
