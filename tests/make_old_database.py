"""A small database as a version of the code writes it, for the tests that upgrade it: run in a checkout of that version.

    PYTHONPATH=tests:. python tests/make_old_database.py tests/schemas

Two runs of a real scheduler, one of them crowded so that requests are preempted, with what their clients saw and a kept
report; a POST of two sequences, one that was refused, a change of settings, and one that a kill has left open. Asks the
version only for what every version has: records.py, runs, client rows, reports.
"""

from __future__ import annotations

import gzip
import sqlite3
import sys
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from builders import make_request
from records import WALL, Records, make_bench, make_row, some_requests

from app.store import client_rows, migrate, reports, runs
from app.store.runs import NewRun
from scheduler.core.events import SettingsChanged


def line(id: str, n: int, tenant: str) -> dict[str, Any]:
    """What a client says of a request that went well."""
    instants = {"due_ms": 0, "sent_ms": 1, "first_ms": 40, "last_ms": 60, "end_ms": 61}
    times = {name: 10.0 * n + later for name, later in instants.items()}
    return times | {"id": id, "n": n, "status": "ok", "http": 200, "tenant": tenant, "output_tokens": 3, "gaps_ms": [8.0, 12.0]}


def play_run(records: Records, run: str, boot: int, prefix: str, **limits: Any) -> None:
    """A run that has ended, its report kept."""
    new = NewRun(run, WALL + boot, started_wall=WALL - 1, scenario="steady", seed=7, parameters={"rate": 2.5})
    records.job(partial(runs.create, run=new))
    requests = some_requests(8)
    for request in requests:
        request.id = prefix + request.id
    records.play(make_bench(boot, **limits), requests, run=run, settings=limits)
    lines = [client_rows.row(run, line(f"c-{each.id}", n, each.tenant)) for n, each in enumerate(requests)]
    records.job(partial(client_rows.add, run=run, rows=lines))
    records.job(partial(runs.change, run_id=run, status="finished", ended_wall=WALL + 10**12))
    report = records.job(partial(reports.build, run_id=run))
    records.job(partial(runs.change, run_id=run, report=report, verdict=report["verdict"]))


def fill(records: Records) -> None:
    """All that the module promises."""
    play_run(records, "calm", 2, "a", max_num_seqs=4)
    play_run(records, "crowded", 3, "b", blocks=8, max_num_seqs=3, max_num_batched_tokens=16)
    bench = make_bench(4)
    records.begin_life(bench)
    records.accept(make_row("two", sequences=2), make_row("giant"))
    bench.add(make_request("two/0"), make_request("two/1"), make_request("giant", prompt=5000))
    bench.run_to_idle()
    bench.events.append(bench.scheduler.record(SettingsChanged, bench.clock.now, version=2, changes=(("max_num_seqs", 2),)))
    records.write(bench.events)
    records.accept(make_row("open", 5, prompt_text="words that were kept", ignored_fields=("user",)))


def main(folder: Path) -> None:
    """Write `folder`/REVISION.db.gz."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "old.db"
        records = Records(path)
        fill(records)
        records.close()
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
            connection.execute("VACUUM")
        target = folder / f"{migrate.head()}.db.gz"
        target.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    print(target, target.stat().st_size)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
