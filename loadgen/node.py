"""What a Locust process does for a run: alone, as master, or as worker. Import only where Locust may patch.

Locust keeps the users and the processes; the run's plan, its end and its records are ours. A master makes the plan,
workers get it with Locust's own start message, report each second, and finish when the master says so.
Invariant: Locust is told to stop only after every part has recorded what was in flight.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import gevent
import orjson
from locust.runners import MasterRunner, WorkerRunner

from loadgen.params import ScenarioError
from loadgen.part import Part, target_of
from loadgen.plan import Plan, Wishes, make, write_run_file
from loadgen.results import Record, Totals
from loadgen.target import TargetError
from loadgen.users import LoadUser, report_to_locust

STOP_DRAIN_S = 5.0
REPORT_S = 1.0
HEAD_START_S = 0.5
PATIENCE_S = 12.0  # for the last word of a worker, beyond its drain
REPORT, STOP, PLAN = "batchscope_report", "batchscope_stop", "batchscope_plan"


def node_for(environment: Any) -> Node:
    """The node of this process's role."""
    if isinstance(environment.runner, MasterRunner):
        return MasterNode(environment)
    if isinstance(environment.runner, WorkerRunner):
        return WorkerNode(environment)
    return LocalNode(environment)


class Node:
    """Base of the three roles: Locust's test_start and test_stopping come here."""

    def __init__(self, environment: Any) -> None:
        self.environment = environment
        self.runner = environment.runner
        self.options = environment.parsed_options

    def begin(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        raise NotImplementedError

    def start_part(self, plan: Plan, process: str) -> Part | None:
        job = plan.job(process)
        if job is None:
            return None
        part = Part(plan, job, self._on_record)
        LoadUser.session = part.session
        part.start()
        return part

    def _on_record(self, record: Record) -> None:
        report_to_locust(self.environment, record)


class WorkerNode(Node):
    """Plays its share and reports to the master."""

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self._part: Part | None = None
        self.runner.register_message(STOP, self._on_stop, concurrent=True)

    def begin(self) -> None:
        plan = Plan.decode(getattr(self.options, PLAN))
        self._part = self.start_part(plan, self.runner.client_id)
        if self._part is not None:
            gevent.spawn(self._report_each_second, self._part)

    def end(self) -> None:
        self._finish(STOP_DRAIN_S)

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
        self.runner.send_message(REPORT, data)


class Director(Node):
    """Makes the plan, prints progress, and ends the run: what a process that is nobody's worker does."""

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self.plan: Plan | None = None
        self._running = False
        self._sent = 0
        self._printed_at = 0.0

    def begin(self) -> None:
        wishes = wishes_of(self.options, self.environment.host)
        processes = self.processes()
        try:
            plan = make(wishes, target_of(wishes.url), processes, HEAD_START_S if self.remote else 0.0)
            write_run_file(plan, {})
        except (ScenarioError, TargetError) as error:
            print(f"loadgen: {error}", file=sys.stderr, flush=True)
            self.environment.process_exit_code = 1
            gevent.spawn(self._end_locust)
            return
        self.plan = plan
        self._running = True
        self._sent, self._printed_at = 0, time.perf_counter()
        self.spread(plan)
        gevent.spawn(self._watch, plan)

    def end(self) -> None:
        """Locust stops the test: a signal, the run time, or its page. May be called again while it lasts."""
        if self.plan is None:
            return
        self.finish(STOP_DRAIN_S)
        if self._running:
            self._running = False
            self._close(self.plan)

    def _watch(self, plan: Plan) -> None:
        """Progress once a second; the natural end of the run."""
        scenario = plan.scenario
        over = plan.started_wall + scenario.duration_s
        while self._running and not self.at_rest() and time.time() < over:
            gevent.sleep(max(0.0, min(REPORT_S, over - time.time())))
            self._print(plan)
        printer = gevent.spawn(self._print_on, plan)
        self.finish(scenario.drain_s if self._running else STOP_DRAIN_S)
        printer.kill()
        if self._running:
            self._end_locust()

    def _print_on(self, plan: Plan) -> None:
        while True:
            gevent.sleep(REPORT_S)
            self._print(plan)

    def _close(self, plan: Plan) -> None:
        self._print(plan)
        write_run_file(plan, {"totals": self.totals().as_json(), "capacity": self.capacity(), "workers_lost": self.lost()})
        if plan.external:
            try:
                target_of(plan.wishes.url).stop(plan.run)
            except TargetError as error:
                print(f"loadgen: the run could not be closed: {error}", file=sys.stderr, flush=True)

    def _end_locust(self) -> None:
        stop: Callable[[], None] = self.runner.quit if self.options.headless else self.runner.stop
        stop()

    def _print(self, plan: Plan) -> None:
        now, totals = time.perf_counter(), self.totals()
        rate = (totals.sent - self._sent) / max(now - self._printed_at, 1e-6)
        self._sent, self._printed_at = totals.sent, now
        if not self.options.progress:
            return
        line = {"type": "progress", "t": round(time.time() - plan.started_wall, 3), **totals.as_json(), "rate": round(rate, 3)}
        line |= {**self.health(), "capacity": self.capacity(), "workers_lost": self.lost()}
        sys.stdout.write(orjson.dumps(line).decode() + "\n")
        sys.stdout.flush()

    # What a lone process and a master do each in their way:
    remote = False

    def processes(self) -> list[str]:
        raise NotImplementedError

    def spread(self, plan: Plan) -> None:
        raise NotImplementedError

    def finish(self, seconds: float) -> None:
        raise NotImplementedError

    def at_rest(self) -> bool:
        raise NotImplementedError

    def totals(self) -> Totals:
        raise NotImplementedError

    def capacity(self) -> float | None:
        raise NotImplementedError

    def health(self) -> Mapping[str, float]:
        raise NotImplementedError

    def lost(self) -> int:
        return 0


class LocalNode(Director):
    """One process does it all."""

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self._part: Part | None = None

    def processes(self) -> list[str]:
        return ["local"]

    def spread(self, plan: Plan) -> None:
        self._part = self.start_part(plan, "local")

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


class MasterNode(Director):
    """Workers play; the master adds up what they report."""

    remote = True

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self._reports: dict[str, dict[str, Any]] = {}
        self.runner.register_message(REPORT, self._on_report)

    def processes(self) -> list[str]:
        clients = self.runner.clients
        return [client.id for client in [*clients.ready, *clients.running, *clients.spawning]]

    def spread(self, plan: Plan) -> None:
        self._reports = {}
        setattr(self.options, PLAN, plan.encode())  # Locust sends options that it does not know to its workers

    def finish(self, seconds: float) -> None:
        self.runner.send_message(STOP, {"drain_s": seconds})
        until = time.perf_counter() + seconds + PATIENCE_S
        while time.perf_counter() < until and self._speechless():
            gevent.sleep(0.05)

    def at_rest(self) -> bool:
        assert self.plan is not None
        return bool(self._reports) and len(self._reports) >= self._alive() and self._all("at_rest")

    def totals(self) -> Totals:
        total = Totals()
        for report in self._reports.values():
            counts = {name: count for name, count in report["totals"].items() if name != "in_flight"}
            total = total.plus(Totals(**counts))
        return total

    def capacity(self) -> float | None:
        known = [report["capacity"] for report in self._reports.values() if report["capacity"] is not None]
        return sum(known) if known else None

    def health(self) -> Mapping[str, float]:
        healths = [report["health"] for report in self._reports.values()]
        if not healths:
            return {}
        return {"lag_ms": max(h["lag_ms"] for h in healths), "cpu": max(h["cpu"] for h in healths)}

    def lost(self) -> int:
        return 0 if self.plan is None else len(self.plan.shares) - self._alive()

    def _alive(self) -> int:
        """Workers with a share that have said their last word or are not missing."""
        assert self.plan is not None
        missing = {client.id for client in self.runner.clients.missing}
        known = {client.id for client in self.runner.clients.all} - missing
        final = {name for name, report in self._reports.items() if report["final"]}
        return len((known | final) & set(self.plan.shares))

    def _speechless(self) -> bool:
        assert self.plan is not None
        final = sum(1 for report in self._reports.values() if report["final"])
        return final < self._alive()

    def _all(self, field: str) -> bool:
        return all(report[field] for report in self._reports.values())

    def _on_report(self, environment: Any, msg: Any) -> None:
        self._reports[msg.node_id] = msg.data


def wishes_of(options: Any, host: str | None) -> Wishes:
    """The wishes in Locust's options, from its command line or its page."""
    given = options.set or []
    pairs = given.replace(",", " ").split() if isinstance(given, str) else given
    return Wishes(
        url=(host or "http://127.0.0.1:8000").rstrip("/"),
        scenario=options.scenario,
        pairs=tuple(pairs),
        seed=int(options.seed),
        model=options.model or None,
        run=options.run_id or None,
        out=options.out or None,
    )
