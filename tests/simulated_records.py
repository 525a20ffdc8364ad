"""A simulation recorded in a file: for tests of what the records make of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from records import WALL

from app.store.runs import NewRun
from app.store.simulation import BOOT, Recording
from scheduler.runners import cost_model
from scheduler.simulate import Ask, Requests, Simulation, Trace, on_hardware, settings_on

COST = cost_model.load(cost_model.DEFAULT_HARDWARE)
SECOND = 1_000_000_000
RUN = "run_" + "0" * 26
ASKS = [
    Ask(n * SECOND // 40, 30 + 50 * (n % 9), 2 + n % 13, tenant="ab"[n % 2], shared=((1, 32),) if n % 4 else ())
    for n in range(50)
]


def new_run(id: str = RUN, **fields: Any) -> NewRun:
    versions = {"simulation": {"boot": BOOT, "hardware": COST.id}}
    given: dict[str, Any] = {"status": "running", "started_wall": WALL, "versions": versions, "target": "simulated:x"}
    return NewRun(id, WALL, **(given | fields))


class Recorded:
    """`asks` on an H100, recorded in `path`; `close` at the end."""

    def __init__(self, path: Path, asks: Sequence[Ask] = ASKS, id: str = RUN, **changes: Any) -> None:
        self.path = path
        settings = settings_on(COST, changes)
        self.recording = Recording(path, new_run(id, scheduler=changes, settings=asdict(settings)), COST.model)
        source = Trace(Requests(id, settings.default_timeout_ms, self.recording.told).all_of(asks))
        self.simulation: Simulation = on_hardware(COST, settings, source, self.recording.events, boot=BOOT)
        self.simulation.begin(COST.id, COST.model)

    def close(self, until: int | None = None, status: str = "finished") -> dict[str, Any]:
        self.simulation.run(until)
        self.simulation.abort("client_gone")
        return self.recording.close(status, WALL + 1, {"t": self.simulation.clock.now() / SECOND})
