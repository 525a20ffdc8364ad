"""LoadRuns: the one load run that may be active, from its request to its report. Starts the generator, never imports it.

pending → running → draining → finished | failed | stopped. The generator is a child in a process group of its own; its
file of requests is the truth, and what it could not post is imported from there at the end. A change of its rate is asked
for here and stands in its row (`progress`) once the generator has said that it was made.
Invariants: at most one run is active; the scheduler settings that a run changed are put back when it ends, however it ends.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from app.request_id import new_request_id
from app.supervisor import scenarios
from app.supervisor.generator import ERRORS, STOP_S, Generator, Order, log_lines
from app.supervisor.loan import Engine, Loan
from scheduler.errors import BatchscopeError, SettingsError

log = logging.getLogger("batchscope")

CPU_HIGH = 0.9  # of the generator's core: from here on it measures itself
FULL_CORE, FULL_SHARE = 0.9, 0.1  # of one core; of the run's seconds
FIGURES = ("sent", "ok", "failed", "refused", "cancelled", "incomplete", "in_flight")


PACE = ("rate", "rate_factor", "rate_changes", "users")  # what the generator says of the load that it makes


class RunActive(BatchscopeError):
    """Another run is under way."""


class NoRate(BatchscopeError):
    """Nobody can change the rate of this run."""


class Ledger(Protocol):
    """What this room asks of the records; each call waits for its commit."""

    def create(self, run: Mapping[str, Any]) -> dict[str, Any]: ...
    def change(self, run_id: str, columns: Mapping[str, Any]) -> dict[str, Any]: ...
    def import_file(self, run_id: str, path: Path) -> int: ...
    def settle(self, run_id: str) -> int: ...
    def report(self, run_id: str) -> dict[str, Any] | None: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """A run as somebody asked for it. `external`: its generator is not ours; it tells us its scenario for the record."""

    scenario: str | None
    external: bool = False
    name: str | None = None
    set: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    scheduler: dict[str, Any] = field(default_factory=dict)
    processes: int = 1


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where runs happen. `key`: what the child sends as its API key, "" for none; `on_change` hears of every change.

    versions: what a run that begins at this moment is made with.
    """

    directory: Path
    url: Callable[[], str]
    key: str
    versions: Callable[[], dict[str, Any]]
    on_change: Callable[[dict[str, Any] | None], None]


@dataclass(slots=True)
class Life:
    """The active run."""

    id: str
    asked: Asked
    duration_s: float | None
    started_wall: int
    started_at: float
    loan: Loan
    status: str = "pending"
    figures: dict[str, Any] = field(default_factory=dict)
    child: Generator | None = None
    stop_asked: bool = False
    told: int = 0  # progress lines, and those of them that saw the generator's core full
    full: int = 0
    verdict: str | None = None


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
        self._lock = threading.Lock()

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
                raise RunActive(f"run {self._life.id} is active: stop it first", "run")
            shown = _described(asked)
            settings = {**(shown or {}).get("scheduler", {}), **asked.scheduler}
            loan = Loan(self._engine, settings)
            life = Life(
                id=new_request_id().replace("req_", "run_"),
                asked=asked,
                duration_s=None if shown is None else shown["duration_s"],
                started_wall=time.time_ns(),
                started_at=self._clock(),
                loan=loan,
            )
            self._life = life
        row = None
        try:
            row = self._ledger.create(self._new_row(life, settings, shown))
            self._begin(life)
        except BaseException as error:
            life.loan.give_back()
            self._life = None
            if row is not None:
                failed = {"status": "failed", "error": f"it could not start: {error}", "ended_wall": time.time_ns()}
                self._ledger.change(life.id, failed)
            raise
        return row

    def change_rate(self, run_id: str, factor: float) -> None:
        """Ask for so many times the load that the scenario says, from now on. Raises NoRate where nobody could follow."""
        life = self._life
        if life is None or life.id != run_id or life.status == "draining":
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
        if again and life.child is not None:
            if now:
                life.child.order(stop="now")
        elif life.child is None:
            self._finish(life, "finished" if life.asked.external else "stopped", None)
        else:
            self._move(life, "draining")
            threading.Thread(target=life.child.end, args=(now,), name="load-stop", daemon=True).start()
        return True

    def shutdown(self) -> None:
        """The server stops: so does the run, its settings and all."""
        life = self._life
        if life is not None:
            self.stop(life.id)
            end = self._clock() + STOP_S + 15  # after its generator its rows get up to 10 s to end
            while self._life is life and self._clock() < end:
                time.sleep(0.05)

    # ---- life of a run

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
        life.figures = said
        life.told += 1
        life.full += said.get("cpu", 0.0) > FULL_CORE
        over = life.duration_s is not None and said.get("t", 0) >= life.duration_s
        if life.status == "pending":
            self._move(life, "running")
        elif life.status == "running" and over:
            self._move(life, "draining")
        else:
            if changed:
                self._ledger.change(life.id, {"progress": said})
            self._tell(life)

    def _finish(self, life: Life, status: str, error: str | None, file: Path | None = None) -> None:
        """Give the settings back, import what is missing, let its rows end, close its own, report: each in any case."""
        life.loan.give_back()
        columns: dict[str, Any] = {
            "status": status,
            "error": error,
            "ended_wall": time.time_ns(),
            "progress": life.figures or None,
            "generator_cpu_high": life.full > FULL_SHARE * life.told,
        }
        try:
            if file is not None and file.exists():
                self._ledger.import_file(life.id, file)
            self._ledger.settle(life.id)  # before it is said to have ended: whoever reads that asks for its report
            self._ledger.change(life.id, columns)
            report = self._ledger.report(life.id)
            life.verdict = None if report is None else report.get("verdict")
            if life.child is None and report is not None:  # nobody told us its progress; the records have counted it
                life.figures = {name: report["reconciliation"][name] for name in FIGURES if name in report["reconciliation"]}
                self._ledger.change(life.id, {"progress": life.figures})
        except Exception:  # noqa: BLE001 - the run is over in any case; the log has why its report is missing
            log.exception("closing run %s failed", life.id)
        finally:
            life.status = status
            self._life = None
            self._tell(life)

    def _move(self, life: Life, status: str) -> None:
        if life.status in (status, "draining"):
            return
        columns: dict[str, Any] = {"status": status, "progress": life.figures or None}
        if status == "running":
            columns["started_wall"] = life.started_wall
        life.status = status
        self._ledger.change(life.id, columns)
        self._tell(life)

    # ---- rows

    def _new_row(self, life: Life, settings: Mapping[str, Any], shown: Mapping[str, Any] | None) -> dict[str, Any]:
        asked = life.asked
        return {
            "id": life.id,
            "created_wall": life.started_wall,
            "scenario": asked.scenario,
            "name": asked.name,
            "parameters": asked.set if shown is None else _parameters(shown),
            "seed": asked.seed,
            "scheduler": dict(settings),
            "settings": self._engine.current(),
            "target": self._around.url(),
            "external": asked.external,
            "versions": self._around.versions(),
            "duration_s": life.duration_s,
            "processes": asked.processes,
        }

    def _tell(self, life: Life) -> None:
        figures = {name: life.figures.get(name) for name in (*FIGURES, *PACE)}
        elapsed = self._clock() - life.started_at
        shown = {
            "id": life.id,
            "scenario": life.asked.scenario,
            "name": life.asked.name,
            "status": life.status,
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(life.started_wall / 1e9)),
            "elapsed_s": round(life.figures.get("t", elapsed), 3),
            "duration_s": life.duration_s,
            **figures,
            "verdict": life.verdict,
        }
        self._around.on_change(shown)


def _parameters(shown: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario's values and the pair of latencies that its goodput is counted against."""
    return {**shown["values"], **{f"slo_{name}": value for name, value in shown["slo"].items()}}


def _described(asked: Asked) -> dict[str, Any] | None:
    """The scenario that is asked for; what a generator that is not ours says of its own may be unknown to our library."""
    if asked.scenario is None:
        return None
    try:
        return scenarios.describe(asked.scenario, asked.set)
    except SettingsError:
        if asked.external:
            return None
        raise
