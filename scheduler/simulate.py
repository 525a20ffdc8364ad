"""Simulation: a source of requests through the engine's own loop on a simulated clock. Knows no web and no database.

The scheduler, its policies and its events are those of the live engine; only the clock jumps, and the runner's `elapsed`
is taken at its word. Invariant: equal source, settings and runner give byte-equal events, whatever the machine does.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

from scheduler.core.blocks import BlockPool
from scheduler.core.events import EngineStarted, Event, RequestFinished
from scheduler.core.plan import StepOutput, StepPlan
from scheduler.core.policies import catalog
from scheduler.core.policies.base import Policy
from scheduler.core.request import Request
from scheduler.core.scheduler import Scheduler
from scheduler.demand import Ask, Asked, Requests, Source, Together, Users
from scheduler.engine.clock import JumpClock
from scheduler.engine.loop import EngineLoop
from scheduler.errors import SettingsError
from scheduler.runners.base import Runner
from scheduler.runners.cost_model import CALIBRATED, CostModel
from scheduler.runners.simulated import CONTEXT_TOKENS, SimulatedRunner, cost_of
from scheduler.settings import SchedulerSettings

__all__ = [
    "Ask",
    "Asked",
    "NoText",
    "Progress",
    "Requests",
    "Simulation",
    "Source",
    "Together",
    "Trace",
    "Users",
    "on_hardware",
    "settings_on",
]

STUCK_STEPS = 10_000


class Trace:
    """Requests that come when they come, whatever the server does (open loop). They must be in order of arrival."""

    def __init__(self, requests: Iterable[Request]) -> None:
        self._coming = iter(requests)
        self._next = next(self._coming, None)

    def next_at(self) -> int | None:
        """When the next one arrives."""
        return None if self._next is None else self._next.received_at

    def take(self) -> Request:
        """The next one."""
        request, self._next = self._next, next(self._coming, None)
        assert request is not None, "the trace is at its end"
        assert self._next is None or self._next.received_at >= request.received_at, "the trace is not in order of arrival"
        return request

    def finished(self, event: RequestFinished) -> None:
        """A trace does not care."""


class NoText:
    """A text stage for when nobody reads: tokens stay tokens."""

    def open(self, request: Request) -> None:
        """Nothing to open."""

    def write(self, plan: StepPlan, output: StepOutput) -> StepOutput:
        """Nothing to write."""
        return output

    def close(self, event: RequestFinished) -> str:
        """Nothing was held back."""
        return ""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a simulation is: simulated ns, requests that ended, steps."""

    now: int
    finished: int
    steps: int


class Simulation:
    """One run. `publish` takes each event in order; `policy`: an order of the caller's own instead of the settings'."""

    def __init__(
        self,
        settings: SchedulerSettings,
        runner: Runner,
        source: Source,
        publish: Callable[[list[Event]], None],
        *,
        boot: int = 1,
        start: int = 0,
        policy: Policy | None = None,
    ) -> None:
        blocks = settings.kv_cache_tokens // settings.block_size
        if not blocks:
            raise SettingsError("kv_cache_tokens must be set: a simulation has no device to ask", "kv_cache_tokens")
        runner.allocate(blocks, settings.block_size)
        pool = BlockPool(blocks, settings.block_size, settings.enable_prefix_caching, settings.prefix_salt_by_tenant)
        self.clock = JumpClock(start)
        policy = policy or catalog.make(settings.policy, settings.policy_params, pool)
        self.scheduler = Scheduler(settings, pool, policy, boot=boot, cost=cost_of(runner))
        self.finished = 0
        self.steps = 0
        self._source = source
        self._publish = publish
        self.loop = EngineLoop(self.scheduler, runner, self.clock, NoText(), settings, self._report)

    def begin(self, hardware: str, model: str) -> None:
        """Publish EngineStarted: for records, where each life of an engine begins with it. Simulated time 0 is its clock's."""
        pool, now = self.scheduler.pool, self.clock.now()
        facts: dict[str, Any] = {"blocks_total": pool.total, "block_size": pool.size, "hardware": hardware, "model": model}
        facts |= {"wall": now, "mono": now, "settings": self.loop.settings.as_pairs(), "runner": "simulated"}
        self._publish([self.scheduler.record(EngineStarted, now, **facts)])

    def abort(self, detail: str) -> None:
        """End all that is unfinished, now: whoever asked is gone."""
        self.loop.abort(list(self.scheduler.requests), detail)

    def run(
        self,
        until: int | None = None,
        on_progress: Callable[[Progress], bool] = lambda progress: True,
        every: int = 1000,
    ) -> Progress:
        """Until nobody comes and nobody runs, or the clock reaches `until` (ns), or `on_progress` (asked every `every`
        steps) returns False. What was not finished then stays in `scheduler.requests`: the caller says what becomes of it.
        """
        with _uncollected():
            self._run(until, on_progress, every)
        return self._progress()

    def _run(self, until: int | None, on_progress: Callable[[Progress], bool], every: int) -> None:
        scheduler, clock, step, stuck = self.scheduler, self.clock, self.loop.step, 0
        requests, next_at = scheduler.requests, self._source.next_at
        while until is None or clock.now() < until:
            at = next_at()
            if at is not None and at <= clock.now():
                self._arrive()
            before = scheduler.step
            if requests:
                step()
            if scheduler.step != before:
                self.steps += 1
                if not self.steps % every and not on_progress(self._progress()):
                    return
            elif not self._wait():
                if scheduler.idle:
                    return
                stuck += 1
                assert stuck < STUCK_STEPS, "requests wait, nothing runs, and nobody will come"

    def _arrive(self) -> None:
        now, source = self.clock.now(), self._source
        while (at := source.next_at()) is not None and at <= now:
            self.loop.submit(source.take())

    def _wait(self) -> bool:
        """On to the next arrival; False when there is none."""
        at = self._source.next_at()
        if at is None:
            return False
        self.clock.advance(max(at, self.clock.now()))
        return True

    def _report(self, events: list[Event], numbers: list[int], texts: list[str]) -> None:
        self._publish(events)
        for event in events:
            if isinstance(event, RequestFinished):
                self.finished += 1
                self._source.finished(event)

    def _progress(self) -> Progress:
        return Progress(self.clock.now(), self.finished, self.steps)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the cycle collector: a run makes no cycles, and looking for them among millions of events costs a third.

    Nor does it look at them afterwards: freezing and thawing makes everything old, as if it had been looked at.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()
        if enabled:
            gc.enable()


def settings_on(cost: CostModel, changes: Mapping[str, Any]) -> SchedulerSettings:
    """An accelerator's defaults and the memory of `cost`, then `changes`; raises SettingsError, also for more than fits.

    What a run had is not what its machine holds: a model that was calibrated bounds nothing, and *what if* may be asked.
    """
    base = {spec.name: spec.metadata["cuda"] for spec in fields(SchedulerSettings)}
    base |= {"max_model_len": CONTEXT_TOKENS, "kv_cache_tokens": cost.kv_capacity_tokens}
    most = 0 if cost.id.startswith(CALIBRATED) else cost.kv_capacity_tokens
    return SchedulerSettings().change({**base, **changes}).fit(most)


def on_hardware(
    cost: CostModel, settings: SchedulerSettings, source: Source, publish: Callable[[list[Event]], None], *, boot: int = 1
) -> Simulation:
    """A simulation on the hardware of `cost`, whose output nobody reads."""
    return Simulation(settings, SimulatedRunner(cost, silent=True), source, publish, boot=boot)
