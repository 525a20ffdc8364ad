"""LoadRuns: the one load run that may be active, from its request to its report. Starts the generator, never imports it.

pending → running → draining → finished | failed | stopped. The generator is a child in a process group of its own; its
file of requests is the truth, and what it could not post is imported from there at the end. A change of its rate is asked
for here and stands in its row (`progress`) once the generator has said that it was made.
Invariants: at most one run is active, and one whose row says that it has ended is not; the scheduler settings that a run
changed are put back when it ends, however it ends.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from app.supervisor.generator import ERRORS, STOP_S, Generator, Order, log_lines
from app.supervisor.loan import Engine, Loan
from app.supervisor.run_life import FIGURES, GOES_ON, Asked, Life, described, parameters
from app.supervisor.run_ties import Ledger, Surroundings
from scheduler.errors import BatchscopeError

log = logging.getLogger("batchscope")


class RunActive(BatchscopeError):
    """Another run is under way."""


class NoRate(BatchscopeError):
    """Nobody can change the rate of this run."""


class LoadRuns:
    """See the module."""

    def __init__(
        self, around: Surroundings, ledger: Ledger, engine: Engine, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._around = around
        self._ledger = ledger
        self._engine = engine
        self._clock = clock
        self._life: Life | None = None
        self._last: Life | None = None  # the newest, active or not
        self._lock = threading.Lock()  # of which of them is active

    # ---- asked by the API

    @property
    def active(self) -> str | None:
        """The id of the run under way."""
        return None if self._life is None else self._life.id

    def progress(self, run_id: str) -> dict[str, Any] | None:
        """What the generator of that run said last: its row has that of its last move. None where nothing was said."""
        life = self._life
        return life.figures or None if life is not None and life.id == run_id else None

    def start(self, asked: Asked) -> dict[str, Any]:
        """Begin a run; its row. Raises RunActive, SettingsError, EngineGone."""
        with self._lock:
            if self._life is not None:
                raise RunActive(f"run {self._life.id} is active: stop it first (`batchscope runs stop {self._life.id}`)", "run")
            self._life = self._last = life = self._new(asked)
        row = None
        try:
            row = self._ledger.create(life.row(self._engine.current(), self._around.url(), self._around.versions()))
            self._begin(life)
        except BaseException as error:
            life.loan.give_back()
            self._life = None
            life.over.set()
            if row is not None:
                failed = {"status": "failed", "error": f"it could not start: {error}", "ended_wall": time.time_ns()}
                self._ledger.change(life.id, failed)
            raise
        return row

    def change_rate(self, run_id: str, factor: float) -> None:
        """Ask for so many times the load that the scenario says, from now on. Raises NoRate where nobody could follow."""
        life = self._life
        if life is None or life.id != run_id or life.status not in GOES_ON:
            raise NoRate(f"run {run_id} sends nothing any more", "run")
        if life.child is None:
            raise NoRate(f"run {run_id} has a load generator of its own: change its rate there", "run")
        life.child.order(rate_factor=factor)

    def log(self, run_id: str) -> list[str]:
        """The last lines that the run's generator wrote to stderr; none of a run that was not ours."""
        return log_lines(self._around.directory / run_id / ERRORS)

    def stop(self, run_id: str, now: bool = False) -> bool:
        """Ask the active run to end; False when this run is not active. `now`: what is in flight is not waited for."""
        life = self._life
        if life is None or life.id != run_id:
            return False
        again, life.stop_asked = life.stop_asked, True
        if life.child is not None and not again:
            self._end(life, life.child, now)
        elif life.child is not None and now:
            life.child.order(stop="now")
        elif life.asked.external and not again:
            self._finish(life, "finished", None)
        return True

    def shutdown(self) -> None:
        """The server stops: so does the run, its settings and all."""
        life = self._last
        if life is not None:
            self.stop(life.id)
            life.over.wait(STOP_S + 15)  # after its generator its rows get up to 10 s to end

    # ---- life of a run

    def _new(self, asked: Asked) -> Life:
        """With the settings that it asks for in effect."""
        shown = described(asked)
        settings = {**(shown or {}).get("scheduler", {}), **asked.scheduler}
        return Life(
            asked,
            settings,
            parameters=asked.set if shown is None else parameters(shown),
            duration_s=None if shown is None else shown["duration_s"],
            started_at=self._clock(),
            loan=Loan(self._engine, settings),
        )

    def _begin(self, life: Life) -> None:
        if life.asked.external:
            self._move(life, "running")
            return
        assert life.asked.scenario is not None
        order = Order(
            run=life.id,
            scenario=life.asked.scenario,
            url=self._around.url(),
            seed=life.asked.seed,
            set=life.asked.set,
            processes=life.asked.processes,
            out=self._around.directory / life.id,
            key=self._around.key,
        )
        life.child = Generator(order)
        self._tell(life)
        threading.Thread(target=self._follow, args=(life, life.child), name="load-run", daemon=True).start()
        if life.stop_asked:  # before there was anything to end
            self._end(life, life.child, now=False)

    def _end(self, life: Life, child: Generator, now: bool) -> None:
        self._move(life, "draining")
        threading.Thread(target=child.end, args=(now,), name="load-stop", daemon=True).start()

    def _follow(self, life: Life, child: Generator) -> None:
        """Read the child's progress until it ends, then close the run."""
        error: str | None = None
        try:
            for said in child.progress():
                self._progress(life, said)
            code = child.code()
            if code != 0 and not life.stop_asked:
                error = f"the load generator ended with code {code}: {child.last_words()}"
        except Exception as failure:  # noqa: BLE001 - whatever it was, the run must be closed and say why
            log.exception("following run %s failed", life.id)
            error = f"{type(failure).__name__}: {failure}"
            child.end()
        status = "failed" if error else "stopped" if life.stop_asked else "finished"
        self._finish(life, status, error, child.requests)

    def _progress(self, life: Life, said: dict[str, Any]) -> None:
        changed = said.get("rate_changes") != life.figures.get("rate_changes", [])
        life.heard(said)
        if life.status == "pending":
            self._move(life, "running")
        elif life.status == "running" and life.sending_is_over:
            self._move(life, "draining")
        else:
            self._tell(life)  # at once: who reads the progress finds the marker of a change beside it
            if changed:
                self._ledger.change(life.id, {"progress": said})

    def _move(self, life: Life, status: str) -> None:
        if life.status == status or life.status not in GOES_ON:
            return
        columns: dict[str, Any] = {"status": status, "progress": life.figures or None}
        if status == "running":
            columns["started_wall"] = life.started_wall
        life.status = status
        self._ledger.change(life.id, columns)
        self._tell(life)

    # ---- its end

    def _finish(self, life: Life, status: str, error: str | None, file: Path | None = None) -> None:
        """Give the settings back, import what is missing, let its rows end, close its own, report: each in any case."""
        life.loan.give_back()
        columns = life.ended(status, error)
        try:
            for part in (
                partial(self._take_in, life, file),
                partial(self._ledger.settle, life.id),  # before it is said to have ended: who reads that asks for its report
                partial(self._close, life, columns),
                partial(self._report, life),
            ):
                _in_any_case(life.id, part)
        finally:
            life.over.set()

    def _take_in(self, life: Life, file: Path | None) -> None:
        if file is not None and file.exists():
            self._ledger.import_file(life.id, file)

    def _close(self, life: Life, columns: Mapping[str, Any]) -> None:
        """Its row says that it is over, and another may begin: who sees the one sees the other."""
        with self._lock:
            life.status = columns["status"]
            try:
                self._ledger.change(life.id, columns)
            finally:
                self._life = None

    def _report(self, life: Life) -> None:
        """And the page hears of the end, unless another run has begun meanwhile."""
        try:
            report = self._ledger.report(life.id)
            life.verdict = None if report is None else report.get("verdict")
            if not life.figures and report is not None:  # nobody told us its progress; the records have counted it
                life.figures = {name: report["reconciliation"][name] for name in FIGURES if name in report["reconciliation"]}
        finally:
            with self._lock:
                if self._last is life:
                    self._tell(life)

    def _tell(self, life: Life) -> None:
        self._around.on_change(life.shown(self._clock()))


def _in_any_case(run_id: str, part: Callable[[], object]) -> None:
    try:
        part()
    except Exception:  # noqa: BLE001 - the run is over in any case; the log has what is missing of it
        log.exception("closing run %s failed", run_id)
