"""The figures of a run in a process of their own: `python -m app.store.summarise --run RUN --out FILE [--slo TTFT,TPOT]`.

For runs so long that their rows would hold a thread of the web process, and its memory, for seconds. Reads only; what it
made is in the file (run_summary.Kept.as_bytes) once it has ended with 0. On its way it prints a line of JSON each so many
rows: {"what", "rows"}. The database's URL comes by the environment: it may hold a password, and a list of processes shows it.
Invariant: ended at any time, it leaves nothing behind but a file that nobody reads.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
from pathlib import Path

from app.store import database, run_summary
from app.store.report_figures import Slo

URL = "BATCHSCOPE_DATABASE_URL"
POLITENESS = 10  # the engine and the web go first


def main(argv: list[str] | None = None) -> int:
    """0 once the file is written."""
    parser = argparse.ArgumentParser(description="The figures of one run, into a file.")
    parser.add_argument("--run", required=True)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--slo", type=bounds)
    options = parser.parse_args(argv)
    os.nice(POLITENESS)
    gc.disable()  # rows by the million, no circles among them
    with database.reading(os.environ[URL]).connect() as connection, connection.begin():
        kept = run_summary.compute(connection, options.run, options.slo, _tell)
    options.out.write_bytes(kept.as_bytes)
    return 0


def bounds(text: str) -> Slo:
    """`1000,100`: TTFT and TPOT, ms."""
    ttft, tpot = (float(part) for part in text.split(","))
    return Slo(ttft, tpot)


def _tell(what: str, rows: int) -> None:
    print(json.dumps({"what": what, "rows": rows}), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
