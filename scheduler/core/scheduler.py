"""Scheduler: the face of the core. add, abort, schedule, commit; between two steps, new limits or another policy.

Told the time, never asks it. It holds the parts together: Lifecycle makes the moves, Planner plans, Committer applies.
Invariant: every request ever added ends in exactly one RequestFinished, and `check` holds between any two calls.
An empty plan needs no commit. While a plan is open (scheduled, not committed) requests may come and go; a request that
ends takes nothing from the step.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any, TypeVar

from scheduler.core.admission import refusal
from scheduler.core.allocation import longest_sequence
from scheduler.core.blockers import WaitLedger
from scheduler.core.blocks import BlockPool
from scheduler.core.budget import StepCost
from scheduler.core.committer import Committer
from scheduler.core.drain import Drain, Pressure
from scheduler.core.events import Event
from scheduler.core.lifecycle import Lifecycle
from scheduler.core.limits import Limits
from scheduler.core.plan import StepOutput, StepPlan
from scheduler.core.planner import Planner
from scheduler.core.policies.base import Departure, Policy
from scheduler.core.request import FinishReason, Request, RequestState, WaitReason
from scheduler.core.slots import Slots

EXPIRED_PER_STEP = 256
E = TypeVar("E", bound=Event)


class Scheduler:
    """The only mutator of requests and blocks. Times are integer ns and never go back.

    For readers: `requests` (live ones by id), `waiting` (preempted ones included), `parked` of them, `running`, `pool`,
    `seq`, `step`, `idle`, `paused`.
    """

    def __init__(self, limits: Limits, pool: BlockPool, policy: Policy, *, boot: int = 0, cost: StepCost | None = None) -> None:
        self.limits = limits
        self.pool = pool
        self.step = 0
        self.paused = False
        self._life = Lifecycle(pool, policy, Slots(limits.max_num_seqs), longest_sequence(limits, pool), boot)
        self._planner = Planner(self._life, limits, cost)
        self._committer = Committer(self._life)
        self._drain = Drain()
        self._ledger = WaitLedger(self._life.held)
        self._life.quotas.set(limits.tenant_max_running, limits.tenant_max_tokens)
        self._open: StepPlan | None = None

    @property
    def requests(self) -> dict[str, Request]:
        """Live requests by id."""
        return self._life.requests

    @property
    def waiting(self) -> int:
        """Requests that wait, preempted ones included."""
        return self._life.waiting

    @property
    def parked(self) -> int:
        """Those of the waiting that wait for a cause of their own, beside the policy's queue."""
        return len(self._life.parked)

    @property
    def running(self) -> int:
        """Requests that hold a slot."""
        return self._life.running

    @property
    def seq(self) -> int:
        """The number of the last event."""
        return self._life.seq

    @property
    def boot(self) -> int:
        """The engine life that the events belong to."""
        return self._life.boot

    @property
    def policy(self) -> Policy:
        """The order in force."""
        return self._life.policy

    @property
    def idle(self) -> bool:
        """True when there is no work."""
        return not self._life.requests

    def pressure(self) -> Pressure | None:
        """What a newcomer meets, as of the last commit; None unless limits say to shed."""
        if self.limits.admission != "shed":
            return None
        life = self._life
        free = life.slots.limit - life.slots.held
        tokens = life.waiting_tokens - life.parked.tokens  # those parked are before nobody
        return self._drain.pressure(life.open, tokens, life.running, free, self.limits.shed_safety)

    # ---- arrivals and departures

    def add(self, request: Request, now: int) -> list[Event]:
        """RequestQueued (and RequestParked, if its tenant's quota is used up), or RequestFinished(rejected): never silence."""
        life = self._life
        pressure = self.pressure()
        detail = refusal(
            request, life.requests, self.limits, self.pool, life.waiting, life.waiting_tokens, now, pressure
        )  # fmt: skip
        if detail is not None:
            return [life.refuse(request, detail, now)]
        return [life.queue(request, now), *self._planner.gate.arrived(request, now)]

    def abort(self, request_id: str, now: int, detail: str = "operator") -> list[Event]:
        """End a live request in whatever state; an unknown id is no event."""
        request = self._life.requests.get(request_id)
        if request is None:
            return []
        return [self._life.finish(request, FinishReason.ABORT, detail, now)]

    def expire(self, now: int) -> list[Event]:
        """End those whose time-out has passed, a bounded number a call. schedule() does it; a held engine must, too."""
        due = self._life.timeouts.due(now, EXPIRED_PER_STEP)
        return [self._life.finish(request, FinishReason.TIMEOUT, None, now) for request in due]

    # ---- one step

    def schedule(self, now: int) -> StepPlan:
        """Plan a step that starts `now`."""
        assert self._open is None, "the last plan was not committed"
        life = self._life
        life.clocks.advance(now)
        plan = StepPlan(self.step + 1, now, (), ())
        if life.timeouts:
            plan.events += self.expire(now)
        self._planner.gate.open(now, plan.events)
        self._planner.fill(plan)
        life.clocks.switch(plan.binding, now)
        plan.blockers = self._ledger.of(plan, self.limits.max_num_seqs, self.pool.total, self.pool.free)
        if plan.decodes or plan.chunks:  # not plan.empty, without a call
            self.step = plan.step
            self._open = plan
        elif self.paused:
            life.clocks.switch(WaitReason.PAUSED, now)
        return plan

    def commit(self, plan: StepPlan, output: StepOutput, now: int) -> list[Event]:
        """Apply what the open plan's step did."""
        assert plan is self._open, "this plan is not the open one"
        self._open = None
        events = self._committer.apply(plan, output, now)
        prefilling = self._life.prefilling
        unfinished = sum([request.missing for request in prefilling.values()]) if prefilling else 0
        if self.limits.itl_target_ms:
            self._planner.budget.observe(plan, now - plan.started_at)
        self._drain.step(plan, now, self._life.running, unfinished)
        if output.errors and "oom" in output.errors.values():
            self._lower_ceiling(plan)
        if self.paused:
            self._life.clocks.switch(WaitReason.PAUSED, now)
        return events

    def _lower_ceiling(self, plan: StepPlan) -> None:
        """The step was too large for the device: later ones are half as large, until the limits are set anew."""
        planned = len(plan.decodes) + plan.prefill_tokens
        self._planner.set_limits(self.limits, max(self.limits.max_num_seqs, planned // 2))

    # ---- between two steps

    def set_limits(self, limits: Limits, now: int) -> None:
        """New limits from the next step on. Fewer slots drain: nobody is preempted for them."""
        self._life.clocks.advance(now)
        self.limits = limits
        self._life.slots.resize(limits.max_num_seqs)
        self._life.quotas.set(limits.tenant_max_running, limits.tenant_max_tokens)
        self._planner.set_limits(limits)

    def set_policy(self, policy: Policy, now: int) -> None:
        """Another order from the next step on; it takes over who waits and who runs."""
        live = self._life.requests.values()
        running = [request for request in live if request.state is RequestState.RUNNING]
        waiting = [request for request in live if request.state is not RequestState.RUNNING]
        for request in live:
            request.key = None  # the old policy's
        self.pool.observe(None)
        policy.adopt(waiting, running, now)
        parked = list(self._life.parked)
        for request in parked:
            policy.dequeue(request, Departure.PARKED)
        self._life.quotas.rank_anew(request for request in parked if request.parked is WaitReason.QUOTA)
        self._life.policy = policy

    def pause(self, now: int) -> None:
        """The engine is held: who waits, waits for the operator. A single step may still be scheduled."""
        self.paused = True
        if self._open is None:
            self._life.clocks.switch(WaitReason.PAUSED, now)

    def resume(self, now: int) -> None:
        """The engine goes on."""
        self.paused = False
        if self._open is None:
            self._life.clocks.switch(WaitReason.STEP, now)

    def record(self, kind: type[E], now: int, **fields: Any) -> E:
        """An event of the engine's own (EngineStarted, SettingsChanged), in sequence with the core's."""
        return self._life.event(partial(kind, **fields), now)

    # ---- the invariants

    def check(self) -> None:
        """Assert all that must hold between two calls; O(everything), for tests."""
        life = self._life
        running = [r for r in life.requests.values() if r.state is RequestState.RUNNING]
        waiting = [r for r in life.requests.values() if r.state is not RequestState.RUNNING]
        assert all(r.state is not RequestState.FINISHED for r in waiting), "a finished request is live"
        assert life.waiting == len(waiting) and life.running == len(running), "counts differ from states"
        assert life.open == life.waiting - len(life.parked), "the open queue is miscounted"
        assert life.waiting_tokens == sum(r.prompt_tokens for r in waiting), "waiting tokens differ"
        self.pool.check(r.blocks for r in running)
        life.group.check()
        assert all((r in life.group) != (r.number in life.prefilling) for r in running), "a running request is in two places"
        slots = sorted(r.slot for r in running)
        assert len(set(slots)) == len(slots) == life.slots.held and (not slots or slots[0] >= 0), "slots are shared"
        for r in waiting:
            assert r.slot == -1 and not r.blocks and not r.computed, f"{r} waits but holds something"
        for r in running:
            computed = len(r.tokens) - 1 if r in life.group else r.computed
            assert computed <= len(r.blocks) * self.pool.size, f"{r} has computed more than its blocks hold"
            assert len(r.tokens) < life.longest and len(r.blocks) <= self.pool.total, f"{r} outgrew its room"
        assert (life.policy.head(life.clocks.at) is None) == (not life.open), "the policy lost somebody"
        parked = [r for r in waiting if r.parked is not None]
        assert sorted(r.number for r in parked) == sorted(r.number for r in life.parked), "somebody is parked in one book only"
        by = Counter(r.parked for r in parked)
        assert life.parked.by == tuple(by[reason] for reason in WaitReason), "parked by cause differ"
        assert life.parked.tokens == sum(r.prompt_tokens for r in parked), "parked tokens differ"
        life.quotas.check(life.requests.values())
        self._planner.skips.check(waiting)
        life.held.check(running, life.group)
