"""Life: what is known of one load run from its request to its end, and how its row and the live page show it. Moves nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.request_id import new_request_id
from app.supervisor import scenarios
from app.supervisor.generator import Generator
from app.supervisor.loan import Loan
from scheduler.errors import SettingsError

FULL_CORE, FULL_SHARE = 0.9, 0.1  # of one core: from here on the generator measures itself; of the run's seconds
FIGURES = ("sent", "ok", "failed", "refused", "cancelled", "incomplete", "in_flight")
PACE = ("rate", "rate_factor", "rate_changes", "users")  # what the generator says of the load that it makes
GOES_ON = ("pending", "running")  # and may yet send


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


@dataclass(slots=True)
class Life:
    """A run under way, or over. settings: what it changes of the scheduler; parameters: of its scenario, for its row."""

    asked: Asked
    settings: dict[str, Any]
    parameters: dict[str, Any]
    duration_s: float | None
    started_at: float
    loan: Loan
    id: str = field(default_factory=lambda: new_request_id().replace("req_", "run_"))
    started_wall: int = field(default_factory=time.time_ns)
    status: str = "pending"
    figures: dict[str, Any] = field(default_factory=dict)
    child: Generator | None = None
    stop_asked: bool = False
    told: int = 0  # progress lines, and those of them that saw the generator's core full
    full: int = 0
    verdict: str | None = None
    over: threading.Event = field(default_factory=threading.Event)  # closed, and its report made where that is short

    def heard(self, said: dict[str, Any]) -> None:
        """A line of progress of its generator."""
        self.figures = said
        self.told += 1
        self.full += said.get("cpu", 0.0) > FULL_CORE

    @property
    def sending_is_over(self) -> bool:
        """By its generator's own clock."""
        return self.duration_s is not None and bool(self.figures.get("t", 0) >= self.duration_s)

    def row(self, current: dict[str, Any], target: str, versions: dict[str, Any]) -> dict[str, Any]:
        """Of a run that begins. current: the scheduler's settings; versions: what the run is made with."""
        return {
            "id": self.id,
            "created_wall": self.started_wall,
            "scenario": self.asked.scenario,
            "name": self.asked.name,
            "parameters": self.parameters,
            "seed": self.asked.seed,
            "scheduler": dict(self.settings),
            "settings": current,
            "target": target,
            "external": self.asked.external,
            "versions": versions,
            "duration_s": self.duration_s,
            "processes": self.asked.processes,
        }

    def ended(self, status: str, error: str | None) -> dict[str, Any]:
        """What its row says once it is over, as of now."""
        return {
            "status": status,
            "error": error,
            "ended_wall": time.time_ns(),
            "progress": self.figures or None,
            "generator_cpu_high": self.full > FULL_SHARE * self.told,
        }

    def shown(self, now: float) -> dict[str, Any]:
        """For the live page. now: as started_at, s."""
        return {
            "id": self.id,
            "scenario": self.asked.scenario,
            "name": self.asked.name,
            "status": self.status,
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.started_wall / 1e9)),
            "elapsed_s": round(self.figures.get("t", now - self.started_at), 3),
            "duration_s": self.duration_s,
            **{name: self.figures.get(name) for name in (*FIGURES, *PACE)},
            "verdict": self.verdict,
        }


def described(asked: Asked) -> dict[str, Any] | None:
    """The scenario that is asked for; what a generator that is not ours says of its own may be unknown to our library."""
    if asked.scenario is None:
        return None
    try:
        return scenarios.describe(asked.scenario, asked.set)
    except SettingsError:
        if asked.external:
            return None
        raise


def parameters(shown: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario's values and the pair of latencies that its goodput is counted against."""
    return {**shown["values"], **{f"slo_{name}": value for name, value in shown["slo"].items()}}
