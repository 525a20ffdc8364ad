"""vtc: the counters are the service, idling saves no credit. Its guarantees are in guarantees/fairness_guarantees.py."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from builders import Bench, make_request, make_scheduler

from scheduler.core.events import RequestPreempted
from scheduler.core.policies.base import Departure
from scheduler.core.policies.catalog import make
from scheduler.core.policies.vtc import Vtc
from scheduler.core.request import Request, WaitReason


def numbered(*requests: Request) -> tuple[Request, ...]:
    for number, request in enumerate(requests, 1):
        request.number = number
    return requests


def admit(policy: Vtc) -> Request:
    head = policy.head(0)
    assert head is not None
    policy.dequeue(head, Departure.ADMITTED)
    return head


def busy(policy: Vtc, **limits: object) -> Bench:
    """Three tenants, prompts in pieces, and so little memory that requests are preempted."""
    bench = Bench(make_scheduler(policy, **{"blocks": 30, "max_num_seqs": 8, "max_num_batched_tokens": 16, **limits}))
    rng = random.Random(3)
    bench.add(
        *[
            make_request(prompt=rng.randrange(1, 30), max_tokens=rng.randrange(1, 30), tenant=rng.choice(["ann", "bob", "cyd"]))
            for _ in range(30)
        ]
    )
    return bench


def test_counters_are_the_service_each_token_charged_once() -> None:
    policy = Vtc(w_input=1, w_output=2, weights={"bob": 4})
    bench = busy(policy)
    requests = list(bench.scheduler.requests.values())
    bench.run_to_idle()
    assert bench.of(RequestPreempted), "what is computed again was meant to be part of it"
    service = Counter[str]()
    for request in requests:
        service[request.tenant] += request.prompt_tokens + 2 * request.output_tokens
    assert policy._used == {"ann": service["ann"], "bob": service["bob"] / 4, "cyd": service["cyd"]}


def test_next_is_always_of_the_least_served_tenant_who_waits() -> None:
    class Looked(Vtc):
        def dequeue(self, request: Request, why: Departure) -> None:
            if why is Departure.ADMITTED:
                waiting = [r for r in bench.scheduler.requests.values() if r.slot < 0]
                least = min(self._used[r.tenant] for r in waiting)
                assert self._used[request.tenant] == least, "somebody had less"
                peers = [r.number for r in waiting if r.tenant == request.tenant]
                assert request.number == min(peers), "not the oldest of its tenant"
                admitted.append(request.number)
            super().dequeue(request, why)

    admitted: list[int] = []
    bench = busy(Looked(), blocks=60)
    bench.run_to_idle()
    assert len(admitted) >= 30 and admitted != sorted(admitted)


def idle_then_both(policy: Vtc) -> list[str]:
    """ann is served for long while bob is away; then both have three requests. Who is admitted?"""
    for number in range(1, 41):
        request = make_request(prompt=10, tenant="ann")
        request.number = number
        policy.enqueue(request, 0)
        if number > 1:
            admit(policy)
    for number in range(41, 45):
        request = make_request(prompt=10, tenant="bob" if number % 2 else "ann")
        request.number = number
        policy.enqueue(request, 0)
    more = make_request(prompt=10, tenant="bob")
    more.number = 45
    policy.enqueue(more, 0)
    return [admit(policy).tenant for _ in range(6)]


class Unlifted(Vtc):
    """Without the lift: the least counter first, whatever was idle."""

    def _floor(self) -> float:
        return 0.0


def test_who_comes_back_has_saved_nothing() -> None:
    assert idle_then_both(Vtc()) == ["ann", "bob", "ann", "bob", "ann", "bob"]
    assert idle_then_both(Unlifted()) == ["bob", "bob", "bob", "ann", "ann", "ann"], "the lift makes no difference"


def test_who_comes_when_nobody_waits_is_lifted_to_who_waited_last() -> None:
    policy = Vtc()
    first, second = numbered(make_request(prompt=50, tenant="ann"), make_request(prompt=5, tenant="bob"))
    policy.enqueue(first, 0)
    admit(policy)
    policy.enqueue(second, 0)
    assert policy._used == {"ann": 50, "bob": 50}


def test_preempted_request_is_not_taken_for_one_that_was_idle_and_keeps_its_place_among_its_own() -> None:
    policy = Vtc()
    old, young, other = numbered(*[make_request(prompt=p, tenant=t) for p, t in ((8, "ann"), (8, "ann"), (100, "bob"))])
    for request in (old, young, other):
        policy.enqueue(request, 0)
    assert [admit(policy) for _ in range(3)] == [old, other, young]
    policy._used["bob"] = 500
    waits = make_request(tenant="bob")
    waits.number = 4
    policy.enqueue(waits, 0)
    for request in (young, old):
        request.preemptions = 1
        policy.enqueue(request, 0)
    assert policy._used["ann"] == 16, "not lifted to bob's"
    assert [admit(policy), admit(policy)] == [old, young] and policy._used["ann"] == 16, "it has paid"


@pytest.mark.parametrize(("cause", "counter"), [(WaitReason.KV_BLOCKS, 5), (WaitReason.QUOTA, 50)])
def test_who_was_set_aside_until_it_fits_was_not_idle_but_who_was_over_its_quota_was(cause: WaitReason, counter: int) -> None:
    policy = Vtc()
    first, other, busy = numbered(*[make_request(prompt=p, tenant=t) for p, t in ((5, "ann"), (90, "ann"), (50, "bob"))])
    policy.enqueue(first, 0)
    admit(policy)
    policy.enqueue(other, 0)
    policy.dequeue(other, Departure.PARKED)
    policy._used["bob"] = 50
    policy.enqueue(busy, 0)
    other.parked = cause
    policy.enqueue(other, 0)
    assert policy._used["ann"] == counter


def test_for_memory_the_newest_of_the_most_served_tenant_yields() -> None:
    policy = Vtc(weights={"bob": 10})
    requests = numbered(*[make_request(prompt=p, tenant=t) for p, t in ((9, "ann"), (9, "ann"), (40, "bob"), (9, "cyd"))])
    for request in requests:
        policy.enqueue(request, 0)
    while policy.head(0):
        admit(policy).slot = 1
    assert policy.victim(requests, requests[0]) is requests[1]
    waiting = make_request()
    assert policy.victim(requests, waiting) is None and not policy.preempts


def test_policy_that_takes_over_counts_from_its_first_step_on() -> None:
    bench = Bench(make_scheduler(max_num_seqs=2))
    bench.add(make_request(max_tokens=20, tenant="ann"), make_request(max_tokens=20, tenant="bob"))
    bench.add(make_request(tenant="bob"))
    for _ in range(3):
        bench.step()
    policy = Vtc()
    bench.scheduler.set_policy(policy, bench.clock.now)
    bench.step()
    assert policy._used == {"ann": 2, "bob": 2}


def test_tenants_that_do_not_count_are_forgotten() -> None:
    policy = Vtc()
    for number in range(1, 3001):
        request = make_request(prompt=3, tenant=f"tenant {number}")
        request.number = number
        policy.enqueue(request, 0)
        admit(policy)
    assert len(policy._used) < 10
    assert policy.head(0) is None and not policy._listed and not policy._heap


def test_who_was_served_more_than_those_who_wait_is_remembered() -> None:
    policy = Vtc()
    heavy, *waiting = numbered(make_request(prompt=500, tenant="heavy"), *[make_request(tenant=f"t{i}") for i in range(20)])
    policy.enqueue(heavy, 0)
    admit(policy)
    policy._last = None
    for request in waiting:
        policy.enqueue(request, 0)
    policy._least()
    again = make_request(tenant="heavy")
    again.number = 50
    policy.enqueue(again, 0)
    assert policy._used["heavy"] == 500


def test_who_runs_and_is_not_known_is_taken_for_the_least_served_who_wait() -> None:
    policy = Vtc()
    waits, prefills, decodes = numbered(*[make_request(prompt=4, tenant=tenant) for tenant in ("ann", "bob", "cyd")])
    policy.enqueue(waits, 0)
    policy._used["ann"] = 40
    policy.served(prefills, 4)
    policy.tick([decodes], True)
    assert policy._used == {"ann": 40, "bob": 42, "cyd": 42}


def test_decodes_are_counted_anew_only_when_they_change() -> None:
    policy = Vtc()
    bench = Bench(make_scheduler(policy, max_num_seqs=4))
    bench.add(*[make_request(max_tokens=10, tenant=tenant) for tenant in ("ann", "ann", "bob")])
    bench.step()
    bench.step()
    rates = policy._rates
    assert rates == {"ann": 4, "bob": 2}
    bench.step()
    assert policy._rates is rates
    bench.scheduler.abort(bench.events[0].id, bench.clock.now)
    bench.step()
    assert policy._rates == {"ann": 2, "bob": 2}


def test_parameters_of_the_catalog_reach_the_counters() -> None:
    policy = make("vtc", {"w_input": 3, "weight.ann": 2})
    assert isinstance(policy, Vtc)
    (request,) = numbered(make_request(prompt=10, tenant="ann"))
    policy.enqueue(request, 0)
    admit(policy)
    assert policy._used == {"ann": 15}
