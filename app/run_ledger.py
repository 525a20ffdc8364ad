"""RunLedger: what a load run asks of the records, as calls that wait for their commit. Holds no connection itself.

Invariant: writes go through the writer's one thread, in slices; files are read on a native thread.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from app.store import client_rows, run_summary, runs
from app.store.errors import QueryError
from app.store.runs import NewRun
from app.summaries import Summaries

LINES_A_JOB = 500
SETTLES_S = 10.0  # whose client hung up is noticed within a second and aborted by the next step; a held engine takes longer
LOOK_S = 0.1


class RunLedger:
    """`job` and `run_native` as in extensions.Parts."""

    def __init__(
        self,
        job: Callable[..., Any],
        summaries: Summaries,
        run_native: Callable[..., Any],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._job = job
        self._summaries = summaries
        self._run_native = run_native
        self._clock = clock
        self._sleep = sleep

    def create(self, run: Mapping[str, Any]) -> dict[str, Any]:
        """Insert the run; its JSON."""
        row: dict[str, Any] = self._job(partial(runs.create, run=NewRun(**run)))
        return row

    def change(self, run_id: str, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Set columns; its JSON."""
        row: dict[str, Any] = self._job(partial(runs.change, run_id=run_id, **columns))
        return row

    def import_file(self, run_id: str, path: Path) -> int:
        """Add the lines of a generator's file that were not posted; how many were."""
        added = 0
        for rows in self._run_native(_read_lines, run_id, path):
            added += self._job(partial(client_rows.add, run=run_id, rows=rows))["accepted"]
        return added

    def settle(self, run_id: str) -> int:
        """Wait, SETTLES_S at most, until every request of the run has ended in the records; how many are still open then.

        A job runs after all that was handed to the writer before it, so what it counts is no older than the question.
        """
        end = self._clock() + SETTLES_S
        still: int = self._job(partial(run_summary.open_rows, run_id=run_id))
        while still and self._clock() < end:
            self._sleep(LOOK_S)
            still = self._job(partial(run_summary.open_rows, run_id=run_id))
        return still

    def report(self, run_id: str) -> dict[str, Any] | None:
        """The report, kept with the run; None of a long run, whose figures are made while others go on, or of one that was
        deleted as soon as it had ended."""
        try:
            return self._summaries.begin(run_id)
        except QueryError as error:
            if error.param == "run":
                return None
            raise


def _read_lines(run_id: str, path: Path) -> list[list[dict[str, Any]]]:
    """The file's rows in slices. A last line that was cut off by a kill is no line."""
    rows = []
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n") and line.strip():
                rows.append(client_rows.row(run_id, json.loads(line)))
    return [rows[start : start + LINES_A_JOB] for start in range(0, len(rows), LINES_A_JOB)]
