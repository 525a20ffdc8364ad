"""Quotas: what a tenant may run at once, who waits for it, and that nobody waits for nothing."""

from __future__ import annotations

from builders import MS, Bench, make_request, make_scheduler
from event_log import EventLog

from scheduler.core.events import RequestFinished, RequestScheduled, RequestUnparked
from scheduler.core.policies.catalog import make
from scheduler.core.request import Request, RequestState, WaitReason


def bench(policy: str = "fcfs", **limits: object) -> Bench:
    return Bench(make_scheduler(make(policy, {}), **{"max_num_seqs": 8, "max_num_batched_tokens": 256, **limits}))


def of(tenant: str, count: int, **fields: object) -> list[Request]:
    return [make_request(tenant=tenant, **{"prompt": 8, "max_tokens": 4, **fields}) for _ in range(count)]


def running(here: Bench, tenant: str) -> int:
    live = here.scheduler.requests.values()
    return sum(r.tenant == tenant and r.state is RequestState.RUNNING for r in live)


def test_a_tenant_runs_no_more_than_its_quota_while_others_pass() -> None:
    here = bench(tenant_max_running=2)
    here.add(*of("ann", 5), *of("bob", 2))
    plan = here.step()
    assert (running(here, "ann"), running(here, "bob")) == (2, 2)
    assert plan.waiting_by_reason[WaitReason.QUOTA] == 3 and plan.binding is WaitReason.STEP
    most = 0
    while not here.scheduler.idle:
        here.step()
        most = max(most, running(here, "ann"))
    assert most == 2


def test_tokens_of_what_a_tenant_runs_stay_within_its_quota() -> None:
    here = bench(tenant_max_tokens=32)
    here.add(*of("ann", 6, prompt=8, max_tokens=8))  # 16 tokens each: two fit, to the token
    here.step()
    assert running(here, "ann") == 2
    for _ in range(100):
        if here.scheduler.idle:
            break
        here.step()
        assert running(here, "ann") <= 2
    assert len(here.of(RequestFinished)) == 6


def test_a_request_larger_than_the_quota_runs_when_its_tenant_runs_nothing_else() -> None:
    here = bench(tenant_max_tokens=20)
    small, large = make_request("small", tenant="ann", prompt=4, max_tokens=4), make_request("large", tenant="ann", prompt=40)
    here.add(small, large)
    here.step()
    assert large.parked is WaitReason.QUOTA
    here.run_to_idle()
    ends = {event.id: event for event in here.of(RequestFinished)}
    assert [event.reason.value for event in ends.values()] == ["length", "length"]
    assert ends["large"].parts.waits[WaitReason.QUOTA] == ends["small"].at


def test_smaller_ones_of_the_tenant_do_not_pass_a_large_one_that_is_parked() -> None:
    here = bench(tenant_max_tokens=30)
    first, large, small = (
        make_request(name, tenant="ann", prompt=prompt, max_tokens=4) for name, prompt in (("a", 8), ("b", 40), ("c", 2))
    )
    here.add(first, large, small)
    here.run_to_idle()
    admitted = [event.number for event in here.of(RequestScheduled)]
    assert admitted == sorted(admitted)


def test_time_in_the_quota_is_a_part_of_its_own_and_the_parts_sum_up() -> None:
    here = bench(tenant_max_running=1)
    here.add(*of("ann", 3))
    here.clock.tick(7 * MS)
    here.run_to_idle()
    log = EventLog()
    log.fold(here.events)
    log.check_finished()
    waits = [end.parts.waits[WaitReason.QUOTA] for end in here.of(RequestFinished)]
    assert waits[0] == 0 < waits[1] < waits[2]


def test_parked_ones_come_back_in_the_policys_order() -> None:
    here = bench("priority", tenant_max_running=1)
    here.add(*of("ann", 1))
    here.step()
    late, early = make_request("late", tenant="ann", priority=5), make_request("early", tenant="ann", priority=1)
    here.add(late, early)
    here.run_to_idle()
    order = [event.number for event in here.of(RequestUnparked)]
    assert order == [early.number, late.number]


def test_who_comes_back_keeps_its_place_before_those_who_came_later() -> None:
    here = bench(tenant_max_running=1, max_num_seqs=2)
    runs = of("ann", 1, max_tokens=3)
    back, other = of("ann", 1), of("bob", 1, max_tokens=40)
    here.add(*runs, *other)
    here.step()
    here.add(*back)  # parked at once
    here.add(*of("cyd", 1), *of("dee", 1))
    here.run_to_idle()
    admitted = [event.number for event in here.of(RequestScheduled)]
    assert admitted[2] == back[0].number


def test_abort_and_time_out_of_parked_ones() -> None:
    here = bench(tenant_max_running=1)
    here.add(*of("ann", 1, max_tokens=30))
    gone, late = of("ann", 1)[0], of("ann", 1, timeout_at=25 * MS)[0]
    here.add(gone, late)
    here.step()
    here.clock.tick(MS)
    here.events += here.scheduler.abort(gone.id, here.clock.now)
    here.scheduler.check()
    here.run_to_idle()
    ends = {event.id: event for event in here.of(RequestFinished)}
    assert ends[gone.id].reason.value == "abort" and ends[late.id].reason.value == "timeout"
    assert all(ends[r.id].parts.waits[WaitReason.QUOTA] == ends[r.id].at for r in (gone, late))


def test_another_policy_ranks_parked_ones_anew() -> None:
    here = bench(tenant_max_running=1)
    here.add(*of("ann", 1))
    here.step()
    late, early = make_request("late", tenant="ann", priority=5), make_request("early", tenant="ann", priority=1)
    here.add(late, early)
    here.scheduler.set_policy(make("priority", {}), here.clock.now)
    here.scheduler.check()
    assert here.scheduler.parked == 2
    here.run_to_idle()
    assert [event.number for event in here.of(RequestUnparked)] == [early.number, late.number]


def test_who_was_preempted_keeps_its_claim_to_the_quota() -> None:
    here = Bench(make_scheduler(make("priority", {"preempt": 1}), max_num_seqs=1, tenant_max_running=1))
    victim, waiting = make_request("victim", tenant="ann", priority=5), make_request("waiting", tenant="ann", priority=9)
    here.add(victim, waiting)
    here.step()
    here.step()
    here.add(make_request("urgent", tenant="bob", priority=0))
    here.step()
    assert victim.state is RequestState.PREEMPTED
    here.step()
    assert waiting.parked is WaitReason.QUOTA, "it came back although somebody has a claim"
    here.run_to_idle()
    admitted = [event.number for event in here.of(RequestScheduled)]
    assert admitted[-2:] == [victim.number, waiting.number]


def test_a_resubmitted_request_obeys_the_quota_of_the_new_life() -> None:
    here = bench(tenant_max_running=1)
    here.clock.now = 50 * MS
    here.add(*of("ann", 2, received_at=10 * MS, resubmitted=True))
    here.step()
    assert running(here, "ann") == 1 and here.scheduler.parked == 1
    here.run_to_idle()
    for end in here.of(RequestFinished):
        assert end.parts.waits[WaitReason.ENGINE_DOWN] == 40 * MS


def test_another_policy_lets_those_come_back_whom_its_order_puts_first_and_who_have_room() -> None:
    here = bench(tenant_max_tokens=30)
    runs, large, small = of("ann", 1, max_tokens=16)[0], of("ann", 1, prompt=40)[0], of("ann", 1, prompt=2)[0]
    here.add(runs, large, small)
    here.step()
    assert here.scheduler.parked == 2, "the small one does not pass the large one"
    here.scheduler.set_policy(make("sjf", {}), here.clock.now)
    assert [chunk.request for chunk in here.step().chunks] == [small]
    here.run_to_idle()


def test_nobody_comes_back_into_tokens_that_a_preempted_one_of_its_tenant_claims() -> None:
    here = Bench(make_scheduler(make("priority", {"preempt": 1}), max_num_seqs=2, tenant_max_tokens=26))
    ends, yields = of("ann", 1, priority=4), of("ann", 1, priority=5)  # 12 tokens each
    here.add(*ends, *yields)
    here.step()
    here.add(*of("ann", 1, priority=9, prompt=12), *of("bob", 1, priority=0, max_tokens=9))
    here.step()
    assert yields[0].state is RequestState.PREEMPTED
    here.run_to_idle()
    (back,) = here.of(RequestUnparked)
    assert back.at == next(end.at for end in here.of(RequestFinished) if end.id == yields[0].id), "16 fit beside nothing else"
