"""The invariants of the core, asserted after every move of a random life. Prints how many lives it lived.

SEEDS says how many: `SEEDS=10000 pytest tests/scheduler/core/test_state_machine.py`. Orders are swapped while requests wait and
run, across the whole catalog. Nothing may stand still: whoever lives, a step has work or ends somebody; and when nobody comes
any more, all end within a bounded number of steps.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from builders import MS, make_limits, make_request
from event_log import EventLog
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from scheduler.core.blocks import BlockPool
from scheduler.core.events import Event, RequestParked, RequestPreempted, RequestScheduled
from scheduler.core.plan import StepOutput, StepPlan
from scheduler.core.policies.catalog import CATALOG, make
from scheduler.core.request import Request, RequestState, WaitReason
from scheduler.core.scheduler import Scheduler

EXAMPLES = int(os.environ.get("SEEDS", "500"))
MOVES = 70
STOP = 7
SHARED = [100 + i for i in range(16)]
lives: Counter[str] = Counter()

HASTY = [("least_slack", {"preempt": 1, "margin_ms": 0}), ("skip_join_mlfq", {"quantum": 2, "promote_ms": 5}), ("srtf", {})] * 2
URGENT = [("priority", {"preempt": 1}), ("edf", {"preempt": 1})] * 4
policies = st.sampled_from([(name, {}) for name in CATALOG] + URGENT + HASTY)
limit_sets = st.fixed_dictionaries(
    {
        "max_num_seqs": st.integers(1, 4),
        "max_num_batched_tokens": st.sampled_from([4, 8, 16, 64]),
        "enable_chunked_prefill": st.booleans(),
        "long_prefill_token_threshold": st.sampled_from([0, 0, 3]),
        "long_prefill_token_threshold_adaptive": st.booleans(),
        "itl_target_ms": st.sampled_from([0.0, 0.0, 1.0, 15.0]),
        "max_head_skips": st.sampled_from([0, 0, 1, 3]),
        "batching": st.sampled_from(["continuous", "continuous", "continuous", "merge", "static"]),
        "allocation": st.sampled_from(["on_demand", "on_demand", "reserve"]),
        "watermark": st.sampled_from([0.0, 0.2]),
        "max_num_queued_reqs": st.sampled_from([3, 100, 100, 100, 100]),
        "max_num_queued_tokens": st.sampled_from([0, 0, 0, 0, 60]),
        "tenant_max_running": st.sampled_from([0, 0, 0, 1, 2]),
        "tenant_max_tokens": st.sampled_from([0, 0, 0, 30, 90]),
    }
)


class Life(RuleBasedStateMachine):
    """One engine life on a random pool, driven by random moves."""

    @initialize(
        limits=limit_sets,
        policy=policies,
        blocks=st.integers(8, 30),
        size=st.sampled_from([1, 2, 4]),
        caching=st.booleans(),
        longest=st.sampled_from([24, 60, 200]),
        seed=st.integers(0, 1 << 30),
    )
    def begin(
        self, limits: dict[str, Any], policy: Any, blocks: int, size: int, caching: bool, longest: int, seed: int
    ) -> None:
        self.longest = longest
        self.rng = random.Random(seed)
        self.now = 1000
        self.pool = BlockPool(blocks, size, caching, salted=bool(seed % 2))
        limits = make_limits(**limits, max_model_len=longest)
        self.core = Scheduler(limits, self.pool, make(*policy, self.pool), boot=3)
        self.log = EventLog()
        self.accepted: dict[int, Request] = {}
        self.serial = 0
        self.step_floor: dict[int, int] = {}  # output tokens at the last preemption, by number
        lives["lives"] += 1

    def take(self, events: list[Event]) -> None:
        self.log.fold(events)
        for event in events:
            if isinstance(event, RequestPreempted):
                output = self.accepted[event.number].output_tokens
                assert self.step_floor.get(event.number, -1) < output, "preempted twice without a token in between"
                self.step_floor[event.number] = output
                lives["urgent" if event.urgency else "preempted"] += 1
            if isinstance(event, RequestParked):
                lives[f"parked for {event.cause.name}"] += 1
            lives[type(event).__name__] += 1

    # ---- moves

    @rule(
        many=st.integers(1, 5),
        stops=st.booleans(),
        timeout=st.sampled_from([None, None, None, None, None, None, 0, 40, 400]),
        resubmitted=st.sampled_from([False, False, False, True]),
        again=st.sampled_from([False, False, False, False, True]),
    )
    def add(self, many: int, stops: bool, timeout: int | None, resubmitted: bool, again: bool) -> None:
        for _ in range(many):
            self.add_one(stops, timeout, resubmitted, again)

    def add_one(self, stops: bool, timeout: int | None, resubmitted: bool, again: bool) -> None:
        self.serial += 1
        rng, id = self.rng, f"r{self.serial}"
        if again and self.core.requests:
            id = next(iter(self.core.requests))
        request = make_request(
            id,
            SHARED[: rng.randrange(17)] + [rng.randrange(50) for _ in range(rng.randrange(11))],
            rng.choice([1, 2, 5, 12, 30]),
            min_tokens=rng.randrange(4),
            stop_token_ids=(STOP, STOP + 1) if stops else (),
            priority=rng.randrange(4),
            tenant=rng.choice("abc"),
            kind=rng.choice(["interactive", "batch"]),
            received_at=self.now - rng.choice([0, 0, MS, 30 * MS]) if self.now > 100 * MS else self.now,
            timeout_at=None if timeout is None else self.now + timeout * MS,
            deadline_at=self.now + rng.randrange(500) * MS if rng.random() < 0.5 else None,
            resubmitted=resubmitted,
        )
        events = self.core.add(request, self.now)
        assert len(events) == 1 + (request.parked is not None)
        self.take(events)
        if request.number:
            self.accepted[request.number] = request
        else:
            assert request.state is RequestState.FINISHED

    @rule(ns=st.sampled_from([0, 1, MS, MS, 300 * MS]))
    def wait(self, ns: int) -> None:
        self.now += ns

    @precondition(lambda self: self.core.requests)
    @rule()
    def abort(self) -> None:
        assert self.core.abort("nobody", self.now) == []
        if self.rng.random() < 0.5:
            return
        self.take(self.core.abort(self.rng.choice(list(self.core.requests)), self.now, "client_gone"))

    @rule(times=st.integers(2, 12), trouble=st.sampled_from(["", "", "", "", "", "error", "stopped", "leaves"]))
    def step(self, times: int, trouble: str) -> None:
        for _ in range(times):
            self.one_step(trouble)

    def one_step(self, trouble: str) -> None:
        core, rng = self.core, self.rng
        waiting, running = core.waiting, core.running
        plan = core.schedule(self.now)
        self.take(plan.events)
        core.check()
        self.check_plan(plan)
        if plan.empty:
            assert not core.requests, "work, and nothing is scheduled or ended"
            return
        if waiting and not running:
            assert plan.chunks or plan.events, "everybody waits, nobody runs"
        self.now += rng.choice([1, MS, 20 * MS])
        rows = len(plan.sampling)
        if trouble == "leaves":
            victim = rng.choice([*plan.decodes, *[chunk.request for chunk in plan.chunks]])
            self.take(core.abort(victim.id, self.now))
            core.check()
            self.now += 5
        output = StepOutput([rng.randrange(50) for _ in range(rows)], 1)
        if trouble == "error" and rows:
            output.errors = {rng.randrange(rows): rng.choice(["nan_logits", "oom"])}
        if trouble == "stopped" and rows:
            output.stopped = {rng.randrange(rows): "END"}
        self.take(core.commit(plan, output, self.now))
        self.check_report(plan)

    @rule(changes=limit_sets)
    def set_limits(self, changes: dict[str, Any]) -> None:
        self.core.set_limits(make_limits(**changes, max_model_len=self.longest), self.now)

    @rule(policy=policies)
    def set_policy(self, policy: Any) -> None:
        if self.rng.random() < 0.5:
            return
        self.core.set_policy(make(*policy, self.pool), self.now)
        lives[f"swapped to {policy[0]}"] += 1

    @rule(paused=st.booleans())
    def hold(self, paused: bool) -> None:
        if paused:
            self.core.pause(self.now)
        else:
            self.core.resume(self.now)

    # ---- what must hold

    def check_plan(self, plan: StepPlan) -> None:
        core = self.core
        limits = core.limits
        planned = len(plan.decodes) + plan.prefill_tokens
        assert planned <= plan.token_budget and plan.token_budget <= max(limits.max_num_batched_tokens, len(plan.decodes))
        decoding = len(core._life.group)
        if plan.decodes or limits.batching != "merge":
            assert len(plan.decodes) == decoding, "a decode was held back"
        else:
            lives["stood still"] += decoding > 0
            assert not decoding or plan.chunks, "the decodes stand still for nothing"
        assert limits.batching != "merge" or not (plan.decodes and plan.chunks), "a merged batch prefills or decodes"
        assert all(request.passed <= 3 for request in core.requests.values()), "passed more often than any limit allowed"
        joined = [event for event in plan.events if isinstance(event, RequestScheduled)]
        for tenant in {self.accepted[event.number].tenant for event in joined}:
            own = [r for r in core.requests.values() if r.tenant == tenant and r.state is RequestState.RUNNING]
            most, tokens = limits.tenant_max_running, limits.tenant_max_tokens
            assert len(own) <= 1 or not most or len(own) <= most, "admitted over the tenant's quota"
            used = sum(r.prompt_tokens + r.params.max_tokens for r in own)
            assert len(own) <= 1 or not tokens or used <= tokens, "admitted over the tenant's tokens"
        if joined:
            assert core.running <= limits.max_num_seqs, "admitted over the limit"
            assert all(event.slot < limits.max_num_seqs for event in joined)
        assert plan.running == core.running and sum(plan.waiting_by_reason) == core.waiting
        assert (plan.binding is WaitReason.STEP) == (core.waiting == core.parked), (plan.binding, core.waiting, core.parked)
        assert plan.context == sum(len(request.tokens) for request in plan.decodes)
        told = plan.blockers
        assert told is None or told.kept <= told.free <= self.pool.total, f"{told.kept} of {told.free} free blocks are kept"
        for chunk in plan.chunks:
            assert chunk.tokens > 0 and len(chunk.request.blocks) * self.pool.size >= chunk.start + chunk.tokens

    def check_report(self, plan: StepPlan) -> None:
        step = self.log.steps[-1]
        assert step.step == plan.step and step.decodes is plan.decode_numbers
        assert step.blocks_free == self.pool.free

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "core"):
            return
        core, log = self.core, self.log
        core.check()
        assert log.seq == core.seq
        live = {row.number: (row.state, row.slot, row.id) for row in log.live}
        assert live == {r.number: (r.state.value, r.slot, r.id) for r in core.requests.values()}, "the log tells another story"
        assert log.count("running") == core.running and log.count("waiting") + log.count("preempted") == core.waiting
        assert all(row.emitted == self.accepted[row.number].output_tokens for row in log.live)

    def teardown(self) -> None:
        if not hasattr(self, "core"):
            return
        self.core.resume(self.now)
        for _ in range(2000):
            if self.core.idle:
                break
            self.one_step("")
        assert self.core.idle, "work is left that never ends"
        log = self.log
        log.check_finished()
        assert self.pool.free == self.pool.total
        assert set(log.rows) == set(self.accepted)
        ends = [row.finished for row in log.rows.values() if row.finished]
        assert log.integral("waiting") == sum(sum(end.parts.waits) for end in ends), "Little's law, the queue"
        assert log.integral("system") == sum(end.parts.total for end in ends), "Little's law, the system"
        for number, request in self.accepted.items():
            self.check_end(request, log.rows[number].finished)

    def check_end(self, request: Request, end: Any) -> None:
        output = request.tokens[request.prompt_tokens :]
        lives[end.reason.value] += 1
        match end.reason.value:
            case "length":
                assert len(output) == request.params.max_tokens or end.detail in ("context_length", "kv_capacity")
            case "stop":
                assert len(output) >= request.params.min_tokens
            case "timeout":
                assert end.at >= request.timeout_at
            case "error":
                assert end.detail in ("nan_logits", "oom")
        if end.reason.value != "stop":
            taken = [i for i, token in enumerate(output, 1) if token in request.params.stop_token_ids]
            last = len(output) if end.reason.value == "length" else len(output) + 1
            assert all(i < request.params.min_tokens or i == last for i in taken) or not taken, "a stop was missed"


def test_invariants_hold_after_every_move_of_a_random_life(say: Callable[[str], None]) -> None:
    lives.clear()
    profile = settings(
        max_examples=EXAMPLES,
        stateful_step_count=MOVES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Life, settings=profile)
    say(f"core state machine: {lives['lives']} lives, {dict(sorted(lives.items()))}")
    assert lives["lives"] >= EXAMPLES
    if EXAMPLES < 500:  # asked for by hand: too few to have seen everything
        return
    for seen in ("preempted", "urgent", "stop", "length", "timeout", "error", "abort", "parked for KV_BLOCKS", "stood still"):
        assert lives[seen] > EXAMPLES / 25, f"{seen} was hardly ever seen: {lives[seen]}"
    assert [name for name in CATALOG if not lives[f"swapped to {name}"]] == [], "an order that nobody was handed over to"
