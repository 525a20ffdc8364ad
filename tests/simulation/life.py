"""A whole life from a seed: plan, world, disk, web and engine; faults; calm; then the checker looks at what is left.

`run(seed)` never raises for what it finds: it is in `Outcome.faults`. Invariant: equal seeds give equal outcomes, hash and all.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from unittest import mock

from simulation import checker
from simulation import plan as plans
from simulation.client import Client
from simulation.disk import Disk
from simulation.plan import CALM, Act, ClientPlan
from simulation.web import Web
from simulation.world import MS, START_NS, S, World

from app.store import writer
from app.store.errors import StoreError
from scheduler.core.events import Event
from scheduler.core.plan import StepOutput, StepPlan
from scheduler.engine import server
from scheduler.engine.build import DEFAULT_HARDWARE
from scheduler.runners.cost_model import load as load_cost_model
from scheduler.runners.simulated import SimulatedRunner

PATIENCE = 900 * S  # after CALM; the longest silence that is lawful is a first step's, then a rest
CANARY = "canary"
_COST = load_cost_model(DEFAULT_HARDWARE)


@dataclass
class Outcome:
    """What came of a seed. `faults`: broken promises, in words; empty is good."""

    seed: int
    faults: list[str] = field(default_factory=list)
    digest: str = ""
    told: dict[str, int] = field(default_factory=dict)
    journal: list[object] = field(default_factory=list)  # plan, acts and events, for people


class Life:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.plan = plans.make(seed)
        self.world = World(seed)
        self.disk = Disk(self.world)
        self.log: list[Event] = []
        self.webs: list[Web] = []
        canary = ClientPlan(CANARY, CALM, ((97, 98),), 3, stream=True)
        self.clients = [Client(self.world, each) for each in (*self.plan.clients, canary)]
        self.calm = False
        self.killed_webs = 0

    @property
    def web(self) -> Web:
        return self.webs[-1]

    def go(self) -> bool:
        """False when something never ended."""
        world = self.world
        self._start_web()
        begin = self.plan.weather.load + 50 * MS  # the first engine is up, as a rule
        for client in self.clients[:-1]:
            world.call(client.plan.at + begin, lambda client=client: self._post(client))
        for act in self.plan.acts:
            world.call(act.at + begin, lambda act=act: self._act(act))
        world.call(CALM, self._calm_down)
        return world.run(self._at_rest, START_NS + CALM + PATIENCE)

    def _start_web(self) -> None:
        self.webs.append(Web(self.world, self.disk, self.plan, self._runner, self.log))
        web = self.web
        self.world.spawn(lambda: self._serve(web), web.process)

    def _serve(self, web: Web) -> None:
        """The process from its start to its end; whoever watches over it starts it again."""
        try:
            web.serve()
        except StoreError:
            assert self.disk.hits, "the disk was sound"
        self._kill_web(web, 500 * MS)

    def _runner(self) -> SimulatedRunner:
        return _FaultyRunner(self)

    # ---- clients

    def _post(self, client: Client) -> None:
        web = self.web
        if web.process.alive:
            client.posted = True
            self.world.spawn(lambda: web.post(client), web.process)
        else:
            client.tell("refused", "no server")

    # ---- acts

    def _act(self, act: Act) -> None:
        web, world = self.web, self.world
        world.note(act.what, act.value)
        if act.what == "kill web":
            if web.process.alive:
                self._kill_web(web, act.lasts)
            return
        if act.what == "disk":
            self.disk.break_down(*act.value)
            world.call(act.lasts, self.disk.repair)
        if not web.process.alive or not web.engines:
            return
        engine = web.engines[-1]
        match act.what:
            case "kill engine":
                engine.kill()
            case "stop engine":
                world.stop(engine.process)
                world.call(act.lasts, lambda: world.go_on(engine.process))
            case "settings":
                world.spawn(lambda: web.ask(lambda: web.engine.patch(act.value)), web.process)
            case "hold":
                world.spawn(lambda: web.hold(act.value, act.lasts), web.process)
            case "cancel":
                world.spawn(lambda: web.acceptance.cancel(act.value), web.process)

    def _kill_web(self, web: Web, down: int) -> None:
        self.killed_webs += 1
        self.world.kill(web.process)
        for engine in web.engines[-1:]:
            engine.web_died()
            self.world.go_on(engine.process)
        for client in self.clients:
            if client.posted:
                client.tell("reset")
        self.world.call(down, self._start_web)

    def _calm_down(self) -> None:
        """Faults are over: no more of them, and everything must end."""
        self.calm = True
        self.disk.repair()
        self.plan = replace(self.plan, weather=replace(self.plan.weather, fails_to_start=0.0, late_copies=0.0))
        for web in self.webs:
            web.plan = self.plan
            for engine in web.engines:
                engine._weather = self.plan.weather
        self.world.spawn(self._resume)

    def _resume(self) -> None:
        """An operator lets the engine go on, however often he must ask; then a request comes that must be served."""
        while not (self.web.process.alive and self.web.engine.up) or self.web.engine.status.paused:
            web = self.web
            if web.process.alive and web.engine.up:
                self.world.spawn(lambda web=web: web.ask(lambda: web.engine.hold("resume")), web.process)
            self.world.sleep(1.0)
        self._post(self.clients[-1])

    def _at_rest(self) -> bool:
        if not all(client.over for client in self.clients):
            return False
        web = self.web
        stats = web.writer.stats()
        waiting = stats.accepts + stats.events + stats.jobs + stats.pending
        service = web.engines[-1].service
        return not (waiting or web.in_flight.sequences or service is None or not service.loop.scheduler.idle)


class _FaultyRunner(SimulatedRunner):
    """A simulated GPU that is `pace` as slow, and whose rows fail now and then."""

    def __init__(self, life: Life) -> None:
        super().__init__(_COST)
        self._life = life

    def run(self, plan: StepPlan) -> StepOutput:
        output = super().run(plan)
        life, chance = self._life, self._life.world.random
        output.elapsed = round(output.elapsed * life.plan.pace)
        if plan.sampling and not life.calm and chance.random() < life.plan.row_errors:
            output.errors = {chance.randrange(len(plan.sampling)): chance.choice(("nan_logits", "oom"))}
        return output


@contextmanager
def _surroundings(world: World) -> Iterator[None]:
    """No collecting (it costs more than a life), no log lines for what is done on purpose, the world's clock for the writer."""
    log = logging.getLogger("batchscope")
    before, log.disabled = log.disabled, True
    try:
        clocks = SimpleNamespace(monotonic=world.seconds, monotonic_ns=world.now, time_ns=world.wall)
        no_collector = SimpleNamespace(collect=lambda: 0)
        with mock.patch.object(server, "gc", no_collector), mock.patch.object(writer, "time", clocks):
            yield
    finally:
        log.disabled = before


def run(seed: int) -> Outcome:
    """The life of `seed`, checked."""
    life = Life(seed)
    outcome = Outcome(seed, journal=[life.plan.settings, *life.plan.clients, *life.plan.acts])
    with _surroundings(life.world):
        try:
            ended = life.go()
            outcome.faults += checker.check(life, ended)
        except Exception as error:
            outcome.faults.append("".join(traceback.format_exception(error)))
        finally:
            life.world.end()
            outcome.digest = life.world.digest
            life.disk.close()
    outcome.journal += life.log
    for client in life.clients:
        outcome.told[client.told or "nothing"] = outcome.told.get(client.told or "nothing", 0) + 1
    return outcome
