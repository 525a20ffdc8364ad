"""The processes that make a run's load: this one alone, or Locust's workers. Import only where Locust may patch.

A director (director.py) tells a crew to start and to finish and asks what it has done; it does not care which crew.
Invariant: `finish` returns after every part that still lives has recorded all that it began.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, Protocol

import gevent

from loadgen.pace import users_at
from loadgen.part import Part
from loadgen.plan import Plan
from loadgen.results import Totals
from loadgen.users import LoadUser, report_to_locust

REPORT_S = 1.0
STOP_DRAIN_S = 5.0
PATIENCE_S = 12.0  # for the last word of a worker, beyond its drain
REPORT, STOP, RATE, PLAN = "batchscope_report", "batchscope_stop", "batchscope_rate", "batchscope_plan"


class Crew(Protocol):
    """`head_start_s`: how long a word needs to reach every process; `change_rate` is of an instant that far ahead."""

    head_start_s: float

    def processes(self) -> list[str]: ...
    def start(self, plan: Plan) -> None: ...
    def change_rate(self, at_s: float, factor: float) -> None: ...
    def finish(self, seconds: float) -> None: ...
    def at_rest(self) -> bool: ...
    def totals(self) -> Totals: ...
    def capacity(self) -> float | None: ...
    def health(self) -> Mapping[str, float]: ...
    def lost(self) -> int: ...


def start_part(environment: Any, plan: Plan, process: str) -> Part | None:
    """This process's part, begun; None if it joined after the parts were dealt."""
    job = plan.job(process)
    if job is None:
        return None
    part = Part(plan, job, lambda record: report_to_locust(environment, record))
    LoadUser.session = part.session
    part.start()
    return part


def spawn_users(environment: Any, plan: Plan, factor: float) -> None:
    """Have Locust bring closed-loop users up to that many. It is never asked for fewer: it would cut them off in their calls,
    so those who are too many rest instead (Session.turn)."""
    closed, runner = plan.scenario.closed, environment.runner
    if closed is None:
        return
    share = len(plan.shares)  # the same number in each process, however Locust deals them
    wanted = math.ceil(users_at(closed.arrivals.users, factor) / share) * share
    if wanted > runner.target_user_count:
        gevent.spawn(runner.start, wanted, closed.arrivals.spawn_rate)


class LocalCrew:
    """One process does it all."""

    head_start_s = 0.0

    def __init__(self, environment: Any) -> None:
        self._environment = environment
        self._plan: Plan | None = None
        self._part: Part | None = None

    def processes(self) -> list[str]:
        return ["local"]

    def start(self, plan: Plan) -> None:
        self._plan = plan
        self._part = start_part(self._environment, plan, "local")

    def change_rate(self, at_s: float, factor: float) -> None:
        if self._part is not None and self._plan is not None:
            self._part.session.change_rate(at_s, factor)
            spawn_users(self._environment, self._plan, factor)

    def finish(self, seconds: float) -> None:
        if self._part is not None:
            self._part.finish(seconds)

    def at_rest(self) -> bool:
        return self._part is None or self._part.at_rest

    def totals(self) -> Totals:
        return Totals() if self._part is None else self._part.recorder.totals

    def capacity(self) -> float | None:
        return None if self._part is None else self._part.session.capacity

    def health(self) -> Mapping[str, float]:
        return {} if self._part is None else self._part.meter.read()

    def lost(self) -> int:
        return 0


class RemoteCrew:
    """Locust's workers, seen from the master: they report each second, the master adds up."""

    head_start_s = 0.5

    def __init__(self, environment: Any) -> None:
        self._environment = environment
        self._options = environment.parsed_options
        self._plan: Plan | None = None
        self._runner = environment.runner
        self._reports: dict[str, dict[str, Any]] = {}
        self._dealt: set[str] = set()
        self._runner.register_message(REPORT, self._on_report)

    def processes(self) -> list[str]:
        clients = self._runner.clients
        return [client.id for client in [*clients.ready, *clients.running, *clients.spawning]]

    def start(self, plan: Plan) -> None:
        self._plan = plan
        self._reports, self._dealt = {}, set(plan.shares)
        setattr(self._options, PLAN, plan.encode())  # Locust sends options that are not its own to the workers

    def change_rate(self, at_s: float, factor: float) -> None:
        if self._plan is not None:
            self._runner.send_message(RATE, {"at_s": at_s, "factor": factor})
            spawn_users(self._environment, self._plan, factor)

    def finish(self, seconds: float) -> None:
        self._runner.send_message(STOP, {"drain_s": seconds})
        until = time.perf_counter() + seconds + PATIENCE_S
        while time.perf_counter() < until and self._alive() > self._final():
            gevent.sleep(0.05)

    def at_rest(self) -> bool:
        reports = self._reports.values()
        return len(reports) >= max(1, len(self._alive())) and all(report["at_rest"] for report in reports)

    def totals(self) -> Totals:
        total = Totals()
        for report in self._reports.values():
            total = total.plus(Totals(**{name: n for name, n in report["totals"].items() if name != "in_flight"}))
        return total

    def capacity(self) -> float | None:
        known = [report["capacity"] for report in self._reports.values() if report["capacity"] is not None]
        return sum(known) if known else None

    def health(self) -> Mapping[str, float]:
        healths = [report["health"] for report in self._reports.values()]
        return {name: max(health[name] for health in healths) for name in (healths[0] if healths else ())}

    def lost(self) -> int:
        return len(self._dealt - self._alive() - self._final())

    def _alive(self) -> set[str]:
        """Workers with a part that Locust still hears."""
        missing = {client.id for client in self._runner.clients.missing}
        return {client.id for client in self._runner.clients.all if client.id not in missing} & self._dealt

    def _final(self) -> set[str]:
        return {name for name, report in self._reports.items() if report["final"]}

    def _on_report(self, environment: Any, msg: Any) -> None:
        if msg.node_id in self._dealt:
            self._reports[msg.node_id] = msg.data


class Worker:
    """A member of a remote crew, in its own process."""

    def __init__(self, environment: Any) -> None:
        self._environment = environment
        self._runner = environment.runner
        self._part: Part | None = None
        self._runner.register_message(STOP, self._on_stop, concurrent=True)
        self._runner.register_message(RATE, self._on_rate)

    def begin(self) -> None:
        plan = Plan.decode(getattr(self._environment.parsed_options, PLAN))
        self._part = start_part(self._environment, plan, self._runner.client_id)
        if self._part is not None:
            gevent.spawn(self._report_each_second, self._part)

    def end(self) -> None:
        self._finish(STOP_DRAIN_S)

    def _on_rate(self, environment: Any, msg: Any) -> None:
        if self._part is not None:
            self._part.session.change_rate(float(msg.data["at_s"]), float(msg.data["factor"]))

    def _on_stop(self, environment: Any, msg: Any) -> None:
        self._finish(float(msg.data["drain_s"]))

    def _finish(self, seconds: float) -> None:
        if self._part is not None:
            self._part.finish(seconds)
            self._report(self._part)

    def _report_each_second(self, part: Part) -> None:
        while not part.finished.wait(REPORT_S):
            self._report(part)

    def _report(self, part: Part) -> None:
        data = {
            "totals": part.recorder.totals.as_json(),
            "health": part.meter.read(),
            "capacity": part.session.capacity,
            "at_rest": part.at_rest,
            "final": part.finished.is_set(),
        }
        self._runner.send_message(REPORT, data)
