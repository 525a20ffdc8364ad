"""LoadRuns: the one load run that may be active, from its request to its report. Starts the generator, never imports it.

pending → running → draining → finished | failed | stopped. The generator is a child in a process group of its own; its
file of requests is the truth, and what it could not post is imported from there at the end.
Invariants: at most one run is active; the scheduler settings that a run changed are put back when it ends, however it ends.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from app.request_id import new_request_id
from app.supervisor import scenarios
from scheduler.engine.messages import Reply
from scheduler.errors import BatchscopeError, EngineGone, SettingsError

log = logging.getLogger("batchscope")

ROOT = Path(__file__).resolve().parents[2]
STOP_S = 12.0  # the child's own drain takes up to 5 s
FIGURES = ("sent", "ok", "failed", "refused", "cancelled", "incomplete", "in_flight")
KEPT_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "VIRTUAL_ENV", "SYSTEMROOT")


class RunActive(BatchscopeError):
    """Another run is under way."""


class Ledger(Protocol):
    """What this room asks of the records; each call waits for its commit."""

    def create(self, run: Mapping[str, Any]) -> dict[str, Any]: ...
    def change(self, run_id: str, columns: Mapping[str, Any]) -> dict[str, Any]: ...
    def import_file(self, run_id: str, path: Path) -> int: ...
    def report(self, run_id: str) -> dict[str, Any]: ...


class Engine(Protocol):
    """The settings side of the engine's life."""

    def patch(self, changes: Mapping[str, Any], expected: int | None = None) -> Reply: ...
    def current(self) -> dict[str, Any]: ...


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
    """Where runs happen. `key`: what the child sends as its API key, "" for none; `on_change` hears of every change."""

    directory: Path
    url: Callable[[], str]
    key: str
    versions: dict[str, Any]
    on_change: Callable[[dict[str, Any] | None], None]


@dataclass(slots=True)
class Life:
    """The active run."""

    id: str
    asked: Asked
    duration_s: float | None
    started_wall: int
    started_at: float
    restore: dict[str, Any]
    status: str = "pending"
    figures: dict[str, Any] = field(default_factory=dict)
    child: subprocess.Popen[bytes] | None = None
    stop_asked: bool = False
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

    def start(self, asked: Asked) -> dict[str, Any]:
        """Begin a run; its row. Raises RunActive, SettingsError, EngineGone."""
        with self._lock:
            if self._life is not None:
                raise RunActive(f"run {self._life.id} is active: stop it first", "run")
            shown = None if asked.external or asked.scenario is None else scenarios.describe(asked.scenario, asked.set)
            settings = {**(shown or {}).get("scheduler", {}), **asked.scheduler}
            restore = self._apply(settings)
            life = Life(
                id=new_request_id().replace("req_", "run_"),
                asked=asked,
                duration_s=None if shown is None else shown["duration_s"],
                started_wall=time.time_ns(),
                started_at=self._clock(),
                restore=restore,
            )
            self._life = life
        try:
            row = self._ledger.create(self._new_row(life, settings, shown))
            self._begin(life)
        except BaseException:
            self._put_back(life)
            self._life = None
            raise
        return row

    def stop(self, run_id: str) -> bool:
        """Ask the active run to end; False when this run is not active."""
        life = self._life
        if life is None or life.id != run_id:
            return False
        life.stop_asked = True
        if life.child is None:
            self._finish(life, "finished" if life.asked.external else "stopped", None)
        else:
            self._move(life, "draining")
            threading.Thread(target=self._end_child, args=(life.child,), name="load-stop", daemon=True).start()
        return True

    def shutdown(self) -> None:
        """The server stops: so does the run, its settings and all."""
        life = self._life
        if life is not None:
            self.stop(life.id)
            end = self._clock() + STOP_S + 5
            while self._life is life and self._clock() < end:
                time.sleep(0.05)

    # ---- life of a run

    def _begin(self, life: Life) -> None:
        if life.asked.external:
            self._move(life, "running")
            return
        out = self._around.directory / life.id
        out.mkdir(parents=True, exist_ok=True)
        with (out / "stderr.log").open("wb") as errors:
            life.child = subprocess.Popen(
                self._command(life, out),
                cwd=ROOT,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self._tell(life)
        threading.Thread(target=self._follow, args=(life, out), name="load-run", daemon=True).start()

    def _command(self, life: Life, out: Path) -> list[str]:
        asked = life.asked
        command = [sys.executable, "-m", "loadgen", f"--scenario={asked.scenario}", f"--url={self._around.url()}"]
        command += [f"--run={life.id}", f"--seed={asked.seed}", f"--out={out}", f"--processes={asked.processes}"]
        return command + [f"--set={name}={_text(value)}" for name, value in asked.set.items()]

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
        key = {"BATCHSCOPE_API_KEY": self._around.key} if self._around.key else {}
        return {**kept, **key, "PYTHONUNBUFFERED": "1"}

    def _follow(self, life: Life, out: Path) -> None:
        """Read the child's progress until it ends, then close the run."""
        child = life.child
        assert child is not None and child.stdout is not None
        error: str | None = None
        try:
            for line in child.stdout:
                self._progress(life, line)
            code = child.wait()
            if code != 0 and not life.stop_asked:
                error = f"the load generator ended with code {code}: {_tail(out / 'stderr.log')}"
        except Exception as failure:  # noqa: BLE001 - whatever it was, the run must be closed and say why
            log.exception("following run %s failed", life.id)
            error = f"{type(failure).__name__}: {failure}"
            self._end_child(child)
        status = "failed" if error else "stopped" if life.stop_asked else "finished"
        self._finish(life, status, error, out / "requests.jsonl")

    def _progress(self, life: Life, line: bytes) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            log.warning("run %s: the generator said %r", life.id, line[:200])
            return
        if not isinstance(said, dict) or said.get("type") != "progress":
            return
        life.figures = said
        over = life.duration_s is not None and said.get("t", 0) >= life.duration_s
        if life.status == "pending":
            self._move(life, "running")
        elif life.status == "running" and over:
            self._move(life, "draining")
        else:
            self._tell(life)

    def _finish(self, life: Life, status: str, error: str | None, file: Path | None = None) -> None:
        """Import what is missing, put the settings back, close the row, make the report. Each step whatever the others did."""
        self._put_back(life)
        columns: dict[str, Any] = {
            "status": status,
            "error": error,
            "ended_wall": time.time_ns(),
            "progress": life.figures or None,
        }
        try:
            if file is not None and file.exists():
                self._ledger.import_file(life.id, file)
            self._ledger.change(life.id, columns)
            report = self._ledger.report(life.id)
            life.verdict = report.get("verdict")
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

    def _end_child(self, child: subprocess.Popen[bytes]) -> None:
        """SIGTERM, then the whole group."""
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGTERM)
        try:
            child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    # ---- settings and rows

    def _apply(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Change the scheduler's settings for the run; what to put back at its end."""
        if not settings:
            return {}
        before = self._engine.current()
        unknown = set(settings) - set(before)
        if unknown:
            raise SettingsError(f"unknown setting {min(unknown)!r}", f"scheduler.{min(unknown)}")
        reply = self._engine.patch(settings)
        if reply.error is not None:
            raise SettingsError(reply.message, f"scheduler.{reply.param}")
        names = {*settings, *({"policy_params"} if "policy" in settings else ())}
        return {name: before[name] for name in names}

    def _put_back(self, life: Life) -> None:
        if not life.restore:
            return
        try:
            reply = self._engine.patch(life.restore)
            if reply.error is not None:
                log.error("run %s: its settings could not be put back: %s", life.id, reply.message)
        except EngineGone as error:
            log.error("run %s: its settings could not be put back: %s", life.id, error.message)
        life.restore = {}

    def _new_row(self, life: Life, settings: Mapping[str, Any], shown: Mapping[str, Any] | None) -> dict[str, Any]:
        asked = life.asked
        return {
            "id": life.id,
            "created_wall": life.started_wall,
            "scenario": asked.scenario,
            "name": asked.name,
            "parameters": asked.set if shown is None else shown["values"],
            "seed": asked.seed,
            "scheduler": dict(settings),
            "settings": self._engine.current(),
            "target": self._around.url(),
            "external": asked.external,
            "versions": self._around.versions,
            "duration_s": life.duration_s,
            "processes": asked.processes,
        }

    def _tell(self, life: Life) -> None:
        figures = {name: life.figures.get(name) for name in FIGURES}
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


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _tail(path: Path, characters: int = 400) -> str:
    lines = path.read_text("utf-8", "replace").strip().splitlines()
    return " | ".join(lines[-3:])[-characters:] if lines else "it said nothing"
