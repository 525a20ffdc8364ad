"""Summaries: sees to it that the report of a run is kept once the run has ended, whoever needs it first. Makes no figure.

A short run's figures are made on a native thread, a long one's in a child (app/store/summarise.py), one child at a time:
meanwhile whoever asks hears how far it is. What was asked with other bounds, or of a run that goes on, is never kept with the
run, only here, the last few.
Invariant: the writer's thread only writes what is ready; no child outlives `close`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from app.store import reports, run_columns, run_summary, runs, summarise
from app.store.report_figures import Slo
from app.store.run_summary import Kept
from app.supervisor.generator import KEPT_ENVIRONMENT, ROOT
from scheduler.errors import BatchscopeError

log = logging.getLogger("batchscope")

SHORT = 50_000  # rows of both sides: about a second on a thread
LAST = 4  # of those that are not kept with their run
ROUND_S = 60.0  # how long figures of a run that goes on, or of a failure, are good enough


class SummaryFailed(BatchscopeError):
    """The child that made the figures has failed, or was stopped."""


class Asking(Protocol):
    """The records' face for readers."""

    def ask(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any: ...


@dataclass(slots=True)
class Work:
    """One making of figures by a child, under way or over."""

    run: str
    slo: Slo | None
    why: str
    of: int
    began: float
    what: str = "queued"
    rows: int = 0  # read so far, of both sides
    before: int = 0  # of them, those of the side that was read before
    child: subprocess.Popen[bytes] | None = None
    stopped: bool = False
    kept: Kept | None = None
    error: str | None = None
    ended: float | None = None
    over: threading.Event = field(default_factory=threading.Event)

    def as_json(self, now: float) -> dict[str, Any]:
        """How far it is."""
        return {"run": self.run, "what": self.what, "rows": self.rows, "of": self.of, "elapsed_s": round(now - self.began, 1)}


class Summaries:
    """See the module. `job` and `run_native` as in extensions.Parts."""

    def __init__(
        self, url: str, queries: Asking, run_native: Callable[..., Any], job: Callable[..., Any], *, short: int = SHORT
    ) -> None:
        self._url = url
        self._queries = queries
        self._run_native = run_native
        self._job = job
        self._short = short
        self._works: dict[tuple[str, Slo | None], Work] = {}
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._closed = False

    def report(self, run_id: str, slo: Slo | None = None) -> dict[str, Any]:
        """The report, or {"computing": how far it is}. Raises QueryError("run"), SummaryFailed."""
        found = self._made(run_id, slo)
        if isinstance(found, Work):
            return {"computing": found.as_json(time.monotonic())}
        return found

    def wait(self, run_id: str, slo: Slo | None = None) -> dict[str, Any]:
        """The report, however long it takes."""
        while True:
            found = self._made(run_id, slo)
            if not isinstance(found, Work):
                return found
            found.over.wait()

    def missing(self, run_ids: Sequence[str]) -> dict[str, Any] | None:
        """None where every run has its figures, else {"computing": how far it is with one, how many are `ready` of how many
        `runs`}. What is not begun is begun. Raises QueryError("run"), SummaryFailed."""
        found = [self._made(run_id, None) for run_id in run_ids]
        going = [one for one in found if isinstance(one, Work)]
        if not going:
            return None
        shown = next((work for work in going if work.child is not None), going[0])
        among = {"ready": len(found) - len(going), "runs": len(found)}
        return {"computing": shown.as_json(time.monotonic()) | among}

    def begin(self, run_id: str) -> dict[str, Any] | None:
        """A run has ended: its report where it is short, else None, and it is kept later."""
        found = self._made(run_id, None)
        return None if isinstance(found, Work) else found

    def stop(self, run_id: str) -> bool:
        """End what is being made of a run; False when nothing is."""
        going = [work for work in self._works.values() if work.run == run_id and work.ended is None]
        for work in going:
            work.stopped = True
            if work.child is not None:
                work.child.kill()
        return bool(going)

    def close(self) -> None:
        """End every child."""
        self._closed = True
        for run_id in {work.run for work in self._works.values()}:
            self.stop(run_id)

    # ---- which way

    def _made(self, run_id: str, slo: Slo | None) -> dict[str, Any] | Work:
        stored, why, rows, active = self._ask(_state, run_id, slo)
        if stored is not None:
            report: dict[str, Any] = stored
            return report
        if rows > self._short:
            return self._in_a_child(run_id, slo, why, rows, active)
        if slo is None and not active:
            return self._keep(run_id, self._ask(run_summary.compute, run_id), why)
        return run_summary.made_anew(self._ask(reports.build, run_id, slo), why)

    def _ask(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._run_native(self._queries.ask, function, *args)

    def _keep(self, run_id: str, kept: Kept, why: str) -> dict[str, Any]:
        """With the run, if it can be: who asked has the figures in any case."""
        try:
            self._job(partial(run_columns.keep, run_id=run_id, parts=kept.sorted_by))
            self._job(partial(run_summary.keep, run_id=run_id, kept=kept))
        except Exception:  # noqa: BLE001 - full disk, busy writer, a run deleted meanwhile: the next one who asks tries again
            log.exception("the summary of run %s could not be kept", run_id)
        return run_summary.made_anew(kept.report, why)

    def _in_a_child(self, run_id: str, slo: Slo | None, why: str, rows: int, active: bool) -> dict[str, Any] | Work:
        with self._lock:
            work = self._works.get((run_id, slo))
            now = time.monotonic()
            if work is None or work.ended is not None and (work.of != rows and not active or now - work.ended > ROUND_S):
                work = self._works[run_id, slo] = Work(run_id, slo, why, rows, now)
                self._let_go()
                threading.Thread(target=self._follow, args=(work, active), name="summary", daemon=True).start()
        if work.ended is None:
            return work
        if work.kept is None:
            raise SummaryFailed(f"the figures of run {run_id} could not be made: {work.error}", "run")
        return run_summary.made_anew(work.kept.report, why)

    def _let_go(self) -> None:
        over = [key for key, work in self._works.items() if work.ended is not None]
        for key in over[: max(0, len(self._works) - LAST)]:
            del self._works[key]

    # ---- a child

    def _follow(self, work: Work, active: bool) -> None:
        try:
            with self._turn:
                if not (work.stopped or self._closed):
                    self._run(work)
            if work.kept is not None and work.slo is None and not active:
                self._keep(work.run, work.kept, work.why)
        except Exception as failure:  # noqa: BLE001 - whatever it was, who asks must hear of it
            log.exception("making the figures of run %s failed", work.run)
            work.error = f"{type(failure).__name__}: {failure}"
        finally:
            if work.stopped:
                work.kept, work.error = None, "it was stopped"
            work.ended = time.monotonic()
            work.over.set()

    def _run(self, work: Work) -> None:
        with tempfile.TemporaryDirectory(prefix="batchscope-") as folder, tempfile.TemporaryFile() as errors:
            out = Path(folder) / "summary"
            work.child = subprocess.Popen(
                command(work, out),
                cwd=ROOT,
                env=environment(self._url),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
            if work.stopped or self._closed:  # asked between the two
                work.child.kill()
            assert work.child.stdout is not None
            with work.child.stdout as lines:
                for line in lines:
                    _hear(work, line)
            if work.child.wait() == 0:
                work.kept = self._run_native(Kept.of_bytes, out.read_bytes())
                return
            errors.seek(0)
            words = errors.read().decode("utf-8", "replace").strip().splitlines()[-3:]
            work.error = f"it ended with code {work.child.returncode}: {' | '.join(words)[-400:] or 'it said nothing'}"


def command(work: Work, out: Path) -> list[str]:
    """The child's argument list."""
    words = [sys.executable, "-m", summarise.__name__, f"--run={work.run}", f"--out={out}"]
    return words if work.slo is None else [*words, f"--slo={work.slo.ttft_ms},{work.slo.tpot_ms}"]


def environment(url: str) -> dict[str, str]:
    """The child's whole environment."""
    return {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ} | {summarise.URL: url}


def _hear(work: Work, line: bytes) -> None:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        said = json.loads(line)
        what, rows = str(said["what"]), int(said["rows"])
        if what != work.what:
            work.what, work.before = what, work.rows
        work.rows = work.of if what == "figures" else work.before + rows  # it tells of each so many, not of the last


def _state(connection: Any, run_id: str, slo: Slo | None) -> tuple[dict[str, Any] | None, str, int, bool]:
    """(the kept report, why it would not do, rows, whether the run goes on)."""
    why = run_summary.outdated(connection, run_id, slo)
    if why is None:
        return run_summary.stored_report(connection, run_id), "", 0, False
    return None, why, run_summary.rows_of(connection, run_id), runs.get(connection, run_id)["status"] in runs.ACTIVE
