"""The gate of the quotas: who is parked and brought back when, and how many a step."""

from __future__ import annotations

import pytest
from builders import Bench, make_limits, make_request, make_scheduler

from scheduler.core import quota_gate
from scheduler.core.events import RequestParked, RequestUnparked, StepCompleted
from scheduler.core.policies.catalog import make
from scheduler.core.request import Request, RequestState, WaitReason


def bench(policy: str = "fcfs", **limits: object) -> Bench:
    return Bench(make_scheduler(make(policy, {}), **{"max_num_seqs": 8, "max_num_batched_tokens": 256, **limits}))


def of(tenant: str, count: int, **fields: object) -> list[Request]:
    return [make_request(tenant=tenant, **{"prompt": 8, "max_tokens": 4, **fields}) for _ in range(count)]


def test_newcomers_of_a_tenant_at_its_quota_are_parked_as_they_come() -> None:
    here = bench(tenant_max_running=1)
    here.add(*of("ann", 1))
    here.step()
    events = here.add(*of("ann", 1))
    assert [type(event).__name__ for event in events] == ["RequestQueued", "RequestParked"]
    parked = events[1]
    assert isinstance(parked, RequestParked) and parked.blockers is not None
    assert parked.blockers.limit == 1 and parked.blockers.holders[0] == ("ann", 1, 0)


def test_what_a_lowered_quota_holds_back_is_parked_in_bounded_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_gate, "MOVED_PER_STEP", 3)
    here = bench(max_num_seqs=2, max_num_batched_tokens=64)
    here.add(*of("ann", 12, max_tokens=2))
    here.step()
    here.scheduler.set_limits(make_limits(tenant_max_running=1, max_num_seqs=2), here.clock.now)
    here.add(*of("bob", 1))
    before = 0
    while not here.scheduler.idle:
        plan = here.step()
        moved = len(here.of(RequestParked)) + len(here.of(RequestUnparked)) - before
        assert moved <= 3
        before += moved
        assert plan.binding is not WaitReason.QUOTA or moved == 3
    bound = [step for step in here.of(StepCompleted) if step.binding is WaitReason.QUOTA]
    assert before and bound and not any(step.blockers for step in bound), "who holds a quota is told of each that is parked"


def test_a_raised_quota_brings_everybody_back_in_bounded_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_gate, "MOVED_PER_STEP", 3)
    here = bench(tenant_max_running=1, max_num_seqs=2)
    here.add(*of("ann", 9, max_tokens=20))
    for _ in range(3):
        here.step()
    assert here.scheduler.parked == 8
    here.scheduler.set_limits(make_limits(max_num_seqs=2), here.clock.now)
    parked = [8]
    while here.scheduler.parked:
        here.step()
        parked.append(here.scheduler.parked)
    assert parked == [8, 5, 2, 0]
    here.run_to_idle()


def test_who_ranks_before_a_preempted_one_of_its_tenant_comes_back_in_the_very_step_that_parks_that_one() -> None:
    here = bench("priority", tenant_max_running=1, max_num_seqs=1)
    here.scheduler.set_policy(make("priority", {"preempt": 1}), here.clock.now)
    (first,) = of("ann", 1, priority=5, max_tokens=8)
    here.add(first)
    here.step()
    (better,) = of("ann", 1, priority=1)
    (urgent,), (next_,) = of("bob", 1, priority=0), of("carl", 1, priority=3, max_tokens=1)  # one step long
    here.add(better, urgent, next_)
    while next_.state is not RequestState.FINISHED:
        here.step()
    assert first.state is RequestState.PREEMPTED and better.parked is WaitReason.QUOTA
    assert [chunk.request for chunk in here.step().chunks] == [better], "nobody runs, and somebody may"
    here.run_to_idle()
    assert here.scheduler.idle
