"""Builders with defaults, a fake clock and a fake runner: a test names only what it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from scheduler.core.blocks import BlockPool
from scheduler.core.budget import StepCost
from scheduler.core.events import Event
from scheduler.core.plan import StepOutput, StepPlan
from scheduler.core.policies.base import Policy
from scheduler.core.policies.fcfs import Fcfs
from scheduler.core.request import Request, SamplingParams
from scheduler.core.scheduler import Scheduler
from scheduler.settings import SchedulerSettings

MS = 1_000_000
_ids = count()


@dataclass
class FakeClock:
    """Time that moves when it is told to. Integer ns."""

    now: int = 0

    def tick(self, ns: int = MS) -> int:
        """Move on and return the new time."""
        self.now += ns
        return self.now


def make_request(
    id: str | None = None,
    prompt: int | Iterable[int] = 8,
    max_tokens: int = 4,
    *,
    min_tokens: int = 0,
    stop_token_ids: tuple[int, ...] = (),
    stop: tuple[str, ...] = (),
    **fields: Any,
) -> Request:
    """A request; a number for `prompt` means so many tokens that no other request shares."""
    serial = next(_ids)
    name = f"req-{serial}" if id is None else id
    tokens = [10_000 + serial * 1000 + i for i in range(prompt)] if isinstance(prompt, int) else list(prompt)
    params = SamplingParams(max_tokens=max_tokens, min_tokens=min_tokens, stop_token_ids=stop_token_ids, stop=stop)
    return Request(name, tokens, params, **fields)


def make_limits(**changes: Any) -> SchedulerSettings:
    """Limits for small tests: 4 slots, 64 tokens a step, no watermark."""
    defaults: dict[str, Any] = {"max_num_seqs": 4, "max_num_batched_tokens": 64, "max_model_len": 1024, "watermark": 0.0}
    return SchedulerSettings(**(defaults | changes))


def make_scheduler(
    policy: Policy | None = None,
    *,
    blocks: int = 256,
    block_size: int = 4,
    caching: bool = True,
    boot: int = 1,
    cost: StepCost | None = None,
    **limits: Any,
) -> Scheduler:
    """A scheduler over a small pool; keyword arguments are settings."""
    pool = BlockPool(blocks, block_size, caching)
    return Scheduler(make_limits(**limits), pool, policy if policy is not None else Fcfs(), boot=boot, cost=cost)


def plain_token(request: Request) -> int:
    """A token that depends on its place only: the same whatever else runs, and after a preemption."""
    return 100 + (request.prompt_tokens * 31 + len(request.tokens) * 7) % 50


@dataclass
class FakeRunner:
    """Runs plans: a token a sampling row. `token` chooses it; every step takes `elapsed` ns."""

    token: Callable[[Request], int] = plain_token
    elapsed: int = 10 * MS
    plans: list[StepPlan] = field(default_factory=list)

    def run(self, plan: StepPlan) -> StepOutput:
        """One step."""
        self.plans.append(plan)
        return StepOutput([self.token(request) for request in plan.sampling], self.elapsed)


@dataclass
class Bench:
    """A scheduler on a fake clock with a fake runner, and all events that came out of it."""

    scheduler: Scheduler
    clock: FakeClock = field(default_factory=FakeClock)
    runner: FakeRunner = field(default_factory=FakeRunner)
    events: list[Event] = field(default_factory=list)

    def add(self, *requests: Request) -> list[Event]:
        """Add requests that arrive now."""
        new: list[Event] = []
        for request in requests:
            request.received_at = request.received_at or self.clock.now
            new += self.scheduler.add(request, self.clock.now)
        self.events += new
        return new

    def step(self, output: Callable[[StepPlan], StepOutput] | None = None) -> StepPlan:
        """One step; the invariants are checked on both sides."""
        plan = self.scheduler.schedule(self.clock.now)
        self.events += plan.events
        self.scheduler.check()
        if not plan.empty:
            out = (output or self.runner.run)(plan)
            self.clock.tick(out.elapsed)
            self.events += self.scheduler.commit(plan, out, self.clock.now)
            self.scheduler.check()
        return plan

    def run_to_idle(self, most: int = 10_000) -> list[Event]:
        """Step until nothing is left."""
        for _ in range(most):
            if self.scheduler.idle:
                return self.events
            self.step()
        raise AssertionError(f"not idle after {most} steps: {list(self.scheduler.requests.values())}")

    def of(self, kind: type[Any]) -> list[Any]:
        """All events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


def run_to_idle(scheduler: Scheduler, requests: Iterable[Request] = (), *, now: int = 0, elapsed: int = 10 * MS) -> list[Event]:
    """Add `requests` at `now`, run until nothing is left, return all events."""
    bench = Bench(scheduler, FakeClock(now), FakeRunner(elapsed=elapsed))
    bench.add(*requests)
    return bench.run_to_idle()


def play(scheduler: Scheduler, requests: Iterable[Request], *, elapsed: int = 10 * MS) -> list[Event]:
    """Run `requests`, each added when a step has ended at or after its `received_at`, until nothing is left."""
    bench = Bench(scheduler, runner=FakeRunner(elapsed=elapsed))
    coming = sorted(requests, key=lambda request: request.received_at)
    coming.reverse()
    while coming or not scheduler.idle:
        if scheduler.idle:
            bench.clock.now = max(bench.clock.now, coming[-1].received_at)
        while coming and coming[-1].received_at <= bench.clock.now:
            bench.add(coming.pop())
        bench.step()
    return bench.events
