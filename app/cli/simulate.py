"""`batchscope simulate`: a trace, a recorded run or a scenario on a simulated clock, kept and reported like a load run.

The simulation runs in this process and writes a file of its own; the records take that over, by the server that holds the
data directory or, where none does, here, under the lock that a server takes.
Invariant: Ctrl-C ends the simulation, not the command: what there is is kept, unfinished requests as incomplete.
"""

from __future__ import annotations

import argparse
import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from app.cli.demand import Demand, of_run, of_scenario, of_trace
from app.cli.failures import OK, CommandError
from app.cli.hand_over import hand_over
from app.cli.hardware import hardware
from app.cli.load import scenario_values
from app.cli.records import Records, records
from app.cli.report_text import report_text
from app.cli.settings import server_settings
from app.cli.terminal import ProgressLine, number, print_json, say
from app.request_id import new_request_id
from app.store.adopt import forget, simulation_path
from app.store.runs import NewRun
from app.store.simulation import BOOT, Recording
from app.supervisor import scenarios
from app.version import VERSION
from scheduler.runners.cost_model import CALIBRATED, CostModel
from scheduler.settings import SchedulerSettings, parse_pairs
from scheduler.simulate import Progress, Requests, Simulation, on_hardware, settings_on

STEPS_A_LOOK = 200
SHOW_S = 0.2
SECOND = 1_000_000_000


def add_simulate(parser: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    """`simulate (--run RUN | --trace FILE | --scenario NAME)`."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--run", metavar="RUN", help="the requests of a recorded run, when they came")
    what.add_argument("--trace", type=Path, metavar="FILE", help="Azure's CSV, Mooncake's JSON lines, or ours")
    what.add_argument("--scenario", metavar="NAME", help="a scenario that `batchscope scenarios` lists")
    parser.add_argument(
        "--hardware",
        metavar="NAME",
        help="a cost model: its name, a file, or calibrated:RUN (default: the run's own, or an H100)",
    )
    parser.add_argument("--policy", metavar="NAME", help="the order of admission; as --set policy=NAME")
    parser.add_argument("--set", action="append", default=[], metavar="K=V", help="a scheduler setting")
    parser.add_argument("--param", action="append", default=[], metavar="K=V", help="change a parameter of the scenario")
    parser.add_argument("--seed", type=int, default=1, help="seed of a scenario's arrivals and lengths (default: %(default)s)")
    parser.add_argument("--limit", type=_positive, metavar="N", help="the first N requests of a trace or run")
    parser.add_argument("--name", help="what to call the run")
    parser.add_argument("--out", type=Path, metavar="DIR", help="also write report.json here")
    parser.set_defaults(act=simulate)


@dataclass(slots=True)
class Watch:
    """How far it is, on the terminal; and whether somebody asked it to stop."""

    demand: Demand
    counts: Mapping[str, int]
    line: ProgressLine = field(default_factory=ProgressLine)
    began: float = field(default_factory=time.monotonic)
    shown: float = 0.0
    stopped: bool = False

    def look(self, progress: Progress) -> bool:
        """Go on?"""
        now = time.monotonic()
        if now - self.shown >= SHOW_S:
            self.shown = now
            self.line.show(*progress_text(progress, self.demand, self.counts["sent"], now - self.began))
        return not self.stopped

    def stop(self, signum: int, frame: object) -> None:
        """Ctrl-C: after this step; a second one is an interruption like any other."""
        if self.stopped:
            raise KeyboardInterrupt
        self.stopped = True


def progress_text(progress: Progress, demand: Demand, sent: int, took: float) -> tuple[float | None, str]:
    """(share done, simulated time, requests, speed, time left)."""
    at = progress.now / SECOND
    done = None
    if demand.requests:
        done = progress.finished / demand.requests
    elif demand.until:
        done = min(1.0, progress.now / demand.until)
    left = f"  {took * (1 - done) / done:.0f} s left" if done else ""
    of = f" of {demand.requests}" if demand.requests else ""
    speed = f"{at / took:.0f} × real time" if took else ""
    return done, f"simulated {at:.0f} s  {sent} sent, {progress.finished}{of} ended  {speed}{left}"


def simulate(options: argparse.Namespace) -> int:
    """Run it, keep it, report on it."""
    settings = server_settings(options)
    source = records(settings, options.url) if options.run or _names_a_run(options.hardware) else None
    cost = hardware(options.hardware, source, options.run)
    changes = _wanted(options)
    scheduler = settings_on(cost, _recorded(options, source) | changes)
    if scheduler.kv_cache_tokens > cost.kv_capacity_tokens > 0:
        say(
            f"kv_cache_tokens is over the {cost.kv_capacity_tokens} that the run had; whether its machine holds more is unknown"
        )
    demand = _demand(options, source, cost, scheduler)
    run = _new_run(options, cost, scheduler, changes, demand)
    path = simulation_path(settings.directory, run.id)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        report = _simulated(run, demand, cost, scheduler, path)
    except BaseException:
        forget(path)  # it is not whole
        raise
    finally:
        demand.close()
    hand_over(settings, options.url, path, run.id)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "report.json").write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    print_json(report) if options.json else print(report_text(report))
    return OK


def _simulated(run: NewRun, demand: Demand, cost: CostModel, scheduler: SchedulerSettings, path: Path) -> dict[str, Any]:
    """The run, recorded in the file at `path`; its report."""
    recording = Recording(path, run, cost.model)
    source = demand.source(Requests(run.id, scheduler.default_timeout_ms, recording.told))
    simulation = on_hardware(cost, scheduler, source, recording.events, boot=BOOT)
    watch = Watch(demand, recording.counts)
    say(f"run {run.id} on {cost.id}, simulated")
    simulation.begin(cost.id, cost.model)
    with _interruptible(watch.stop):
        progress = simulation.run(demand.until, watch.look, STEPS_A_LOOK)
    watch.line.end()
    if watch.stopped:
        say("stopped; what there is is kept")
    simulation.abort("client_gone")
    took = time.monotonic() - watch.began
    seconds = progress.now / SECOND
    say(
        f"{progress.finished} requests and {progress.steps} steps: {seconds:.0f} s in {took:.1f} s ({number(seconds / took)} ×)"
    )
    told = {"t": seconds, "in_flight": 0, "steps": progress.steps, "took_s": took}
    return recording.close("stopped" if watch.stopped else "finished", time.time_ns(), told)


def _demand(options: argparse.Namespace, source: Records | None, cost: CostModel, scheduler: SchedulerSettings) -> Demand:
    if options.param and not options.scenario:
        raise CommandError("--param belongs to --scenario", 2)
    if options.trace:
        return of_trace(options.trace, options.limit)
    if options.run:
        assert source is not None
        return of_run(source, options.run, options.limit)
    if options.limit:
        raise CommandError("--limit belongs to --trace and --run: a scenario ends with its time (--param duration_s=…)", 2)

    def alike(demand: Any, publish: Callable[[list[Any]], None]) -> Simulation:
        return on_hardware(cost, scheduler, demand, publish)

    return of_scenario(options.scenario, scenario_values(options.scenario, options.param), options.seed, alike, say)


def _wanted(options: argparse.Namespace) -> dict[str, Any]:
    """What a scenario asks of the scheduler while it runs, and over that what the command line says."""
    changes: dict[str, Any] = {}
    if options.scenario:
        values = scenario_values(options.scenario, options.param)
        changes |= scenarios.describe(options.scenario, values)["scheduler"]
    return changes | parse_pairs(options.set) | ({"policy": options.policy} if options.policy else {})


def _recorded(options: argparse.Namespace, source: Records | None) -> dict[str, Any]:
    """The settings that a replayed run had; its memory only on the hardware that it had."""
    if not options.run or source is None:
        return {}
    known = {spec.name for spec in fields(SchedulerSettings)} - ({"kv_cache_tokens"} if options.hardware else set())
    return {name: value for name, value in (source.run(options.run)["settings"] or {}).items() if name in known}


def _new_run(
    options: argparse.Namespace, cost: CostModel, scheduler: SchedulerSettings, changes: dict[str, Any], demand: Demand
) -> NewRun:
    now = time.time_ns()
    label = options.run or (options.trace.name if options.trace else None)
    return NewRun(
        id=new_request_id().replace("req_", "run_"),
        created_wall=now,
        started_wall=now,
        scenario=options.scenario,
        name=options.name or (f"simulated {label}" if label else None),
        parameters=demand.about,
        seed=options.seed,
        scheduler=changes,
        settings=asdict(scheduler),
        target=f"simulated:{cost.id}",
        versions={"batchscope": VERSION, "simulation": {"boot": BOOT, "hardware": cost.id}},
        duration_s=None if demand.until is None else demand.until / SECOND,
        status="running",
    )


@contextmanager
def _interruptible(stop: Callable[[int, Any], None]) -> Iterator[None]:
    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _names_a_run(hardware: str | None) -> bool:
    return (hardware or "").startswith(CALIBRATED)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value
