"""Simulation: a source of requests through the engine's own loop on a simulated clock. Knows no web and no database.

The scheduler, its policies and its events are those of the live engine; only the clock jumps, and the runner's `elapsed`
is taken at its word. Invariant: equal source, settings and runner give byte-equal events, whatever the machine does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from scheduler.core.blocks import BlockPool
from scheduler.core.events import Event, RequestFinished
from scheduler.core.plan import StepOutput, StepPlan
from scheduler.core.policies import catalog
from scheduler.core.policies.base import Policy
from scheduler.core.request import Request
from scheduler.core.scheduler import Scheduler
from scheduler.engine.clock import JumpClock
from scheduler.engine.loop import EngineLoop
from scheduler.errors import SettingsError
from scheduler.runners.base import Runner
from scheduler.settings import SchedulerSettings

STUCK_STEPS = 10_000


class Source(Protocol):
    """Where requests come from: a trace, or users who wait for their answers."""

    def next_at(self) -> int | None:
        """When the next request arrives, ns; None while nobody will come by himself (or at all)."""

    def take(self) -> Request:
        """The request that is due; its `received_at` is the instant named by `next_at`."""

    def finished(self, event: RequestFinished) -> None:
        """One of its requests ended: a user may ask again."""


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
        pool = BlockPool(blocks, settings.block_size, settings.enable_prefix_caching)
        self.clock = JumpClock(start)
        self.scheduler = Scheduler(
            settings, pool, policy or catalog.make(settings.policy, settings.policy_params, pool), boot=boot
        )
        self.finished = 0
        self.steps = 0
        self._source = source
        self._publish = publish
        self.loop = EngineLoop(self.scheduler, runner, self.clock, NoText(), settings, self._report)

    def run(
        self,
        until: int | None = None,
        on_progress: Callable[[Progress], bool] = lambda progress: True,
        every: int = 1000,
    ) -> Progress:
        """Until nobody comes and nobody runs, or the clock reaches `until` (ns), or `on_progress` (asked every `every`
        steps) returns False. What was not finished then stays in `scheduler.requests`: the caller says what becomes of it.
        """
        stuck = 0
        while until is None or self.clock.now() < until:
            self._arrive()
            if self.scheduler.idle:
                if not self._wait():
                    break
                continue
            before = self.scheduler.step
            self.loop.step()
            if self.scheduler.step == before and self.scheduler.requests and not self._wait():
                stuck += 1
                assert stuck < STUCK_STEPS, "requests wait, nothing runs, and nobody will come"
            self.steps += self.scheduler.step - before
            if self.scheduler.step != before and not self.steps % every and not on_progress(self._progress()):
                break
        return self._progress()

    def _arrive(self) -> None:
        now = self.clock.now()
        while (at := self._source.next_at()) is not None and at <= now:
            self.loop.submit(self._source.take())

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
