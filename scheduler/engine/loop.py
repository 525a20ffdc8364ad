"""EngineLoop: schedule, run, commit, publish. Knows no process and no pair; one loop serves live and simulated time.

Invariant: every event that the core returns is handed to `publish` exactly once, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from scheduler.core.events import Event, RequestFinished, SettingsChanged
from scheduler.core.plan import StepOutput, StepPlan
from scheduler.core.policies import catalog
from scheduler.core.policies.base import PolicyInfo
from scheduler.core.request import Request
from scheduler.core.scheduler import Scheduler
from scheduler.engine.clock import Clock
from scheduler.errors import SettingsError
from scheduler.runners.base import Runner
from scheduler.settings import SchedulerSettings

Publish = Callable[[list[Event], list[int], list[str]], None]


class VersionConflict(SettingsError):
    """The settings changed since the caller read them."""


class Words(Protocol):
    """What turns a step's tokens into output text; see text_stage.py."""

    def open(self, request: Request) -> None:
        """The text of a newly added request begins."""

    def write(self, plan: StepPlan, output: StepOutput) -> StepOutput:
        """`output` with its texts, one for each sampling row (or none at all where nobody reads)."""

    def close(self, event: RequestFinished) -> str:
        """What was held back of a request that ended."""


class EngineLoop:
    """The core, a runner, a clock and a text stage, stepped together.

    `publish(events, numbers, texts)` takes what one call made happen; numbers and texts are aligned and name the
    requests that emitted a token. `policies`: those that a change may name.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        runner: Runner,
        clock: Clock,
        text: Words,
        settings: SchedulerSettings,
        publish: Publish,
        policies: Mapping[str, PolicyInfo] = catalog.CATALOG,
    ) -> None:
        self.scheduler = scheduler
        self.runner = runner
        self.clock = clock
        self.text = text
        self.settings = settings
        self.version = 1
        self.paused = False
        self._publish = publish
        self._policies = policies
        self._live: dict[str, Request] = {}

    def step(self) -> None:
        """One step, when there is one to take; time-outs count as events without a step."""
        plan = self.scheduler.schedule(self.clock.now())
        if not plan.decodes and not plan.chunks:  # plan.empty, without a call
            self._report(plan.events)
            return
        # An engine has died over one of these, perhaps: should this one die too, it is known who was in the step.
        if plan.chunks and any([chunk.request.resubmitted for chunk in plan.chunks]):
            self._report(plan.events)
            plan.events = []
        output = self.text.write(plan, self.runner.run(plan))
        now = self.clock.finish_step(plan.started_at, output.elapsed)
        self._finish(plan, output, self.scheduler.commit(plan, output, now))

    def submit(self, request: Request) -> None:
        """Add a request; its verdict (queued or rejected) is published."""
        events = self.scheduler.add(request, self.clock.now())
        if self.scheduler.requests.get(request.id) is request:
            self._live[request.id] = request
            self.text.open(request)
        self._report(events)

    def abort(self, ids: list[str], detail: str) -> None:
        """End requests as `abort`; unknown ids are ignored."""
        for request_id in ids:
            self._report(self.scheduler.abort(request_id, self.clock.now(), detail))

    def expire(self) -> None:
        """End those whose time is over; for a held engine, since every step does it too."""
        self._report(self.scheduler.expire(self.clock.now()))

    def change(self, changes: Mapping[str, Any], expected: int | None) -> None:
        """Change settings between two steps; raises SettingsError (VersionConflict when `expected` is stale)."""
        if expected is not None and expected != self.version:
            raise VersionConflict(f"settings are at version {self.version}, not {expected}", "version")
        if "policy" in changes and "policy_params" not in changes and self.settings.policy_params:
            changes = {**changes, "policy_params": {}}  # another's; told, so that who folds the events drops them
        settings = self.settings.change(changes, live=True)
        now = self.clock.now()
        if (settings.policy, settings.policy_params) != (self.settings.policy, self.settings.policy_params):
            policy = catalog.make(settings.policy, settings.policy_params, self.scheduler.pool, self._policies)
            self.scheduler.set_policy(policy, now)
        self.scheduler.set_limits(settings, now)
        self.settings = settings
        self.version += 1
        pairs = tuple((name, getattr(settings, name)) for name in changes)
        self._report([self.scheduler.record(SettingsChanged, now, version=self.version, changes=pairs)])

    def hold(self, what: str) -> None:
        """ "pause" or "resume" the clock of waiting; the caller decides whether to step."""
        now = self.clock.now()
        if what == "resume" and self.paused:
            self.scheduler.resume(now)
        elif what == "pause" and not self.paused:
            self.scheduler.pause(now)
        self.paused = what != "resume"

    def _finish(self, plan: StepPlan, output: StepOutput, events: list[Event]) -> None:
        if not output.texts:  # nobody reads, so nobody asks whose token is whose
            self._report(plan.events + events if plan.events else events)
            return
        rows = plan.sampling
        emitted = [row for row in range(len(rows)) if row not in output.errors]
        numbers = [rows[row].number for row in emitted]
        texts = [output.texts[row] for row in emitted]
        self._report(plan.events + events, numbers, texts)

    def _report(self, events: list[Event], numbers: list[int] | None = None, texts: list[str] | None = None) -> None:
        """Close what ended, then publish."""
        numbers, texts = numbers or [], texts or []
        for event in events:
            if isinstance(event, RequestFinished) and event.number:
                self._close(event, numbers, texts)
        if events:
            self._publish(events, numbers, texts)

    def _close(self, event: RequestFinished, numbers: list[int], texts: list[str]) -> None:
        """The text that was held back follows the request's last piece; the runner forgets the request."""
        if tail := self.text.close(event):
            if event.number in numbers:
                texts[numbers.index(event.number)] += tail
            else:
                numbers.append(event.number)
                texts.append(tail)
        self.runner.release(self._live.pop(event.id))
