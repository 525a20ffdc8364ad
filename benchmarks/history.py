"""What looking back costs: `python -m benchmarks.history [--rows 1000000] [--keep FOLDER]`. The face for readers, a warm file.

The rows are made (rig/past.py). Figures are ms: p50, p95, maximum of `--rounds` questions (a fifth as many by keys without an
index), median and p95 of the thread's own time. `first`, `deep`, `filtered` pages have 50 rows; deep ones begin anywhere.
`beside` is a thread that ticks each 10 ms meanwhile: its longest gap is what a stream in this process would wait. `live` is a
server on the same file: frames a second of a dashboard while four streams go on, at rest and while pages are asked by HTTP.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from app.store import database, keyset, reports, run_summary  # noqa: E402
from app.store.comparison import compare  # noqa: E402
from app.store.facets import facets_json, spread_json  # noqa: E402
from app.store.filters import SORTS, filters, fingerprint, order  # noqa: E402
from app.store.queries import Queries  # noqa: E402
from app.store.run_summary import Kept  # noqa: E402
from app.summaries import environment  # noqa: E402
from benchmarks.measure import percentile, progress, report  # noqa: E402
from benchmarks.rig.past import LONG, SHORT, fill  # noqa: E402
from benchmarks.rig.server import Server  # noqa: E402

NAME = "batchscope.db"
INDEXED = ("received", "id", "ttft_ms", "e2e_ms", "queue_ms")
SEARCHES = {
    "tenant": "tenant:b",
    "finish": "finish:length",
    "waited": "wait.slots>1s tenant:c",
    "slow": "ttft>2s",
    "of_a_run": f"run:{SHORT} ttft>500ms",
    "of_a_long_run": f"run:{LONG[0]} tenant:b",
}
RARE = {"none": "tenant:nobody", "text": '"0004242"'}
HARDWARE = ("--runner", "simulated", "--hardware", "h100-llama-3.1-8b-tp1-bf16")
LIVE_S = 8.0


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
    """ms; one question beforehand is not counted. cpu: this thread's own, less stretched by a busy machine."""
    question()
    spent, own = [], []
    for _ in range(rounds):
        began, cpu = time.perf_counter(), time.thread_time()
        question()
        spent.append((time.perf_counter() - began) * 1e3)
        own.append((time.thread_time() - cpu) * 1e3)
    wall = {"p50": percentile(spent, 0.5), "p95": percentile(spent, 0.95), "max": max(spent)}
    wall |= {"cpu": percentile(own, 0.5), "cpu_p95": percentile(own, 0.95)}
    return {name: round(value, 2) for name, value in wall.items()}


def places(
    queries: Queries, sort: str, params: dict[str, str], told: random.Random, last: int, rounds: int
) -> Callable[[], object]:
    """Pages that begin at random rows: the cursors are what following pages for hours would have given."""
    asked, sorted_by = filters(params), order(sort)
    mark, column = fingerprint(asked, sorted_by), SORTS[sorted_by.key]

    def cursor() -> str:
        row = f"req_{told.randrange(last):010d}"
        found = queries.ask(
            lambda connection: connection.exec_driver_sql(f"SELECT {column} FROM requests WHERE id = '{row}'").scalar()
        )
        return cursor() if found is None else keyset._encode(keyset.Place(found, row), mark)

    cursors = iter([cursor() for _ in range(rounds + 1)])
    return lambda: queries.ask(keyset.page, asked, sorted_by, 50, next(cursors))


def pages(queries: Queries, count: int, rounds: int) -> dict[str, Any]:
    """First and deep pages by every sort key: by those with an index in both directions, and within runs."""
    told, figures, asked = random.Random(2), dict[str, Any](), filters({})
    for sort in [*(f"-{key}" for key in SORTS), *INDEXED]:
        few = rounds if sort.removeprefix("-") in INDEXED else max(3, rounds // 5)
        figures[sort] = {
            "first": timed(partial(queries.requests, {"sort": sort}), few),
            "first_alone": timed(partial(queries.ask, keyset.page, asked, order(sort), 50, None), few),
            "deep": timed(places(queries, sort, {}, told, count, few), few),
        }
        for run in (SHORT, LONG[0]):
            figures[sort][f"deep_in_{run}"] = timed(places(queries, sort, {"run": run}, told, count, few), few)
    return figures


def filtered(queries: Queries, rounds: int) -> dict[str, Any]:
    """Pages of searches by every key, newest or most first, without their total and, by time of arrival, with it."""
    figures = dict[str, Any]()
    for name, search in {**SEARCHES, **RARE}.items():
        few, asked = rounds if name in SEARCHES else 3, filters({"q": search})
        mine = {key: partial(queries.ask, keyset.page, asked, order(f"-{key}"), 50, None) for key in SORTS}
        figures[name] = {key: timed(question, few if key in INDEXED else 5) for key, question in mine.items()}
        figures[name]["with_total"] = timed(partial(queries.requests, {"q": search}), few)
    return figures


def figures_of_sets(queries: Queries) -> dict[str, Any]:
    """Percentiles and histogram, and facets, of some searches and of everything."""
    searches, sets = {"everything": "", **SEARCHES}, {"spread": spread_json, "facets": facets_json}
    return {
        kind: {name: timed(partial(queries.ask, ask, {"q": text}), 5) for name, text in searches.items()}
        for kind, ask in sets.items()
    }


def summarise(path: Path, run: str) -> dict[str, float]:
    """Have a child make a run's summary, as the server does, and keep it; seconds, and the most memory of a child so far."""
    url, out = f"sqlite:///{path}", path.with_suffix(".summary")
    began = time.perf_counter()
    words = [sys.executable, "-m", "app.store.summarise", f"--run={run}", f"--out={out}"]
    subprocess.run(words, env=environment(url), check=True, stdout=subprocess.DEVNULL, cwd=Path(__file__).parents[1])
    made, kept = time.perf_counter(), Kept.of_bytes(out.read_bytes())
    with database.writing(url).connect() as connection, connection.begin():
        run_summary.keep(connection, run, kept)
    out.unlink()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return {
        "make_s": round(made - began, 1),
        "keep_ms": round((time.perf_counter() - made) * 1e3, 1),
        "kib": round((len(kept.lines) + len(kept.draws)) / 1024),
        "peak_mib": round(peak),
    }


def looked_back(queries: Queries, path: Path) -> dict[str, Any]:
    """Reports and comparisons: a short run from its rows, then everything from what is kept."""
    figures: dict[str, Any] = {"short_report_anew": timed(partial(queries.ask, reports.build, SHORT), 3)}
    figures["summary"] = {run: summarise(path, run) for run in (*LONG, SHORT)}
    figures["runs"] = timed(lambda: queries.runs(100), 10)
    figures["report"] = {run: timed(partial(queries.report, run), 20) for run in (LONG[0], SHORT)}
    for lines in (False, True):
        name = "compare_long_with_lines" if lines else "compare_long"
        figures[name] = timed(lambda lines=lines: queries.ask(compare, list(LONG), lines=lines), 20)  # type: ignore[misc]
    return figures


def live(folder: Path) -> dict[str, Any]:
    """A server on the file: frames a second of a dashboard in another process, at rest and while this one asks for pages."""
    server = Server(folder, *HARDWARE)
    words = [sys.executable, "-m", "benchmarks.rig.readers", server.url]
    reader = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
    assert reader.stdin is not None and reader.stdout is not None

    def say(**command: Any) -> dict[str, Any]:
        reader.stdin.write(json.dumps(command) + "\n")
        reader.stdin.flush()
        told: dict[str, Any] = json.loads(reader.stdout.readline())
        return told

    def rate(during: Callable[[float], int]) -> dict[str, float]:
        before, began = say(count=True), time.monotonic()
        asked = during(began + LIVE_S)
        after, seconds = say(count=True), time.monotonic() - began
        return {"frames_s": round((after["frames"] - before["frames"]) / seconds, 2), "asked": asked}

    try:
        say(open=4, prompt_tokens=16, max_tokens=2000)
        return {"at_rest": rate(_rest), "while_pages_are_asked": rate(partial(_ask_pages, server))}
    finally:
        reader.stdin.close()
        reader.wait(10)
        server.stop()


def _rest(until: float) -> int:
    time.sleep(until - time.monotonic())
    return 0


def _ask_pages(server: Server, until: float) -> int:
    paths = [f"/api/requests?sort={'-' if n % 2 else ''}{key}" for n, key in enumerate(SORTS)]
    paths += ["/api/requests/facets", "/api/requests/spread", f"/api/runs/{LONG[0]}/report", "/api/runs"]
    paths.append(f"/api/compare?runs={','.join(LONG)}&lines=1")
    asked = 0
    while time.monotonic() < until:
        server.get(paths[asked % len(paths)])
        asked += 1
    return asked


def _told(name: str, part: Callable[[], Any]) -> Any:
    progress(name)
    return part()


def main() -> None:
    """Fill a file, ask, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the file there, and use one that is there")
    parser.add_argument("--only", choices=("pages", "filtered", "sets", "looked_back", "live"), action="append")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / NAME
        filled = None if path.exists() else _told(f"filling {options.rows:,} rows", lambda: fill(path, options.rows))
        queries = Queries(f"sqlite:///{path}")
        parts: dict[str, Callable[[], Any]] = {
            "pages": lambda: pages(queries, options.rows, options.rounds),
            "filtered": lambda: filtered(queries, options.rounds),
            "sets": lambda: figures_of_sets(queries),
            "looked_back": lambda: looked_back(queries, path),
        }
        asked = options.only or [*parts, "live"]
        with Pulse() as pulse:
            figures = {name: _told(name, part) for name, part in parts.items() if name in asked}
        queries.close()
        beside = round(pulse.longest * 1e3, 1)
        if "live" in asked:
            figures["live"] = _told("live", lambda: live(folder))
        figures |= {"fill_s": filled, "file_mib": round(path.stat().st_size / 2**20, 1), "beside_longest_ms": beside}
    report("history", {"rows": options.rows, **figures})


if __name__ == "__main__":
    main()
