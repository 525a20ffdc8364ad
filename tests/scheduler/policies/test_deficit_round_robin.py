"""deficit_round_robin: tenants take turns. Its guarantees are in guarantees/fairness_guarantees.py."""

from __future__ import annotations

import random
from collections import deque

import pytest
from builders import Bench, make_request, make_scheduler

from scheduler.core.events import RequestPreempted
from scheduler.core.policies.base import Departure
from scheduler.core.policies.deficit_round_robin import DeficitRoundRobin, cost
from scheduler.core.policies.queues import TenantQueues
from scheduler.core.request import Request, WaitReason


def queued(policy: DeficitRoundRobin, *jobs: tuple[str, int]) -> list[Request]:
    """A request of `cost` tokens in all for each (tenant, cost)."""
    requests = []
    for number, (tenant, tokens) in enumerate(jobs, 1):
        request = make_request(prompt=[1], max_tokens=tokens - 1, tenant=tenant)
        request.number = number
        policy.enqueue(request, 0)
        requests.append(request)
    return requests


def admitted(policy: DeficitRoundRobin) -> list[int]:
    """All in the order in which they are admitted, by number."""
    order = []
    while head := policy.head(0):
        policy.dequeue(head, Departure.ADMITTED)
        order.append(head.number)
    return order


def test_a_turn_serves_what_the_quantum_covers_and_keeps_the_rest_for_the_next() -> None:
    policy = DeficitRoundRobin(quantum=10)
    queued(policy, ("ann", 6), ("ann", 6), ("ann", 6), ("bob", 8), ("bob", 12), ("ann", 6))
    # ann 10: serves 6, keeps 4; bob 10: serves 8, keeps 2; ann 14: serves 6 and 6, keeps 2; bob 12: serves 12; ann
    assert admitted(policy) == [1, 4, 2, 3, 5, 6]


def test_turns_are_as_long_as_the_weight_says() -> None:
    policy = DeficitRoundRobin(quantum=10, weights={"bob": 2})
    queued(policy, *[("ann", 10)] * 3, *[("bob", 10)] * 6)
    assert admitted(policy) == [1, 4, 5, 2, 6, 7, 3, 8, 9]


def plain(jobs: list[tuple[str, int]], quantum: int) -> list[int]:
    """The textbook's rounds, one visit at a time."""
    queues: dict[str, deque[tuple[int, int]]] = {}
    for number, (tenant, tokens) in enumerate(jobs, 1):
        queues.setdefault(tenant, deque()).append((number, tokens))
    deficits, order = dict.fromkeys(queues, 0), []
    while queues:
        for tenant in list(queues):
            deficits[tenant] += quantum
            while tenant in queues and queues[tenant][0][1] <= deficits[tenant]:
                number, tokens = queues[tenant].popleft()
                deficits[tenant] -= tokens
                order.append(number)
                if not queues[tenant]:
                    del queues[tenant]
    return order


def test_skipping_rounds_in_which_nobody_can_pay_changes_nothing() -> None:
    rng = random.Random(8)
    for quantum in (1, 7, 60, 500):
        jobs = [(rng.choice("abcde"), rng.randrange(2, 200)) for _ in range(120)]
        policy = DeficitRoundRobin(quantum=quantum)
        queued(policy, *jobs)
        assert admitted(policy) == plain(jobs, quantum)


def test_head_looks_at_nobody_more_than_twice_however_small_the_quantum() -> None:
    class Counted(DeficitRoundRobin):
        visits = 0

        def _skip_rounds(self) -> None:
            self.visits += len(self._ring)
            super()._skip_rounds()

    policy = Counted(quantum=1)
    queued(policy, *[(f"t{i}", 900_000) for i in range(50)])
    assert policy.head(0) is not None and policy.visits == 50


class Looked(TenantQueues):
    """Counts how often somebody is looked at."""

    __slots__ = ("looks",)
    looks: int

    def first(self, tenant: str) -> Request:
        self.looks += 1
        return super().first(tenant)


@pytest.mark.parametrize("tokens", [11, 20, 21, 900_000])
@pytest.mark.parametrize("tenants", [1, 2, 5])
def test_head_takes_two_rounds_at_most_and_a_look_at_everybody_between_them(tenants: int, tokens: int) -> None:
    policy = DeficitRoundRobin(quantum=10)
    policy._queues = looked = Looked()
    queued(policy, *[(f"t{i}", 1_000_000) for i in range(tenants - 1)], ("payer", tokens))
    looked.looks = 0
    head = policy.head(0)
    assert head is not None and head.tenant == "payer" and looked.looks <= 3 * tenants


def test_who_has_nobody_waiting_loses_what_it_has_saved() -> None:
    policy = DeficitRoundRobin(quantum=100)
    first, *_ = queued(policy, ("ann", 10), ("bob", 60), ("bob", 60))
    policy.dequeue(first, Departure.GONE)
    again = make_request(prompt=[1], max_tokens=119, tenant="ann")
    again.number = 4
    policy.enqueue(again, 0)
    assert policy._ring["ann"] == 100


def test_preempted_request_has_paid_and_its_tenant_is_next() -> None:
    policy = DeficitRoundRobin(quantum=10)
    requests = queued(policy, ("ann", 8), ("bob", 8), ("bob", 8))
    policy.dequeue(requests[0], Departure.ADMITTED)
    requests[0].preemptions = 1
    policy.enqueue(requests[0], 0)
    assert policy.head(0) is requests[0] and cost(requests[0]) == 0
    assert admitted(policy) == [1, 2, 3]


@pytest.mark.parametrize(("cause", "order"), [(WaitReason.KV_BLOCKS, [1, 2, 3]), (WaitReason.QUOTA, [2, 3, 1])])
def test_who_was_set_aside_until_it_fits_is_next_again_but_not_who_was_over_its_quota(
    cause: WaitReason, order: list[int]
) -> None:
    policy = DeficitRoundRobin(quantum=40)
    requests = queued(policy, ("ann", 30), ("bob", 8), ("bob", 8))
    policy.dequeue(requests[0], Departure.PARKED)
    requests[0].parked = cause
    policy.enqueue(requests[0], 0)
    assert admitted(policy) == order


def test_preempted_requests_keep_their_place_among_their_own() -> None:
    policy = DeficitRoundRobin()
    requests = queued(policy, *[("ann", 8)] * 4)
    for request in requests[:3]:
        policy.dequeue(request, Departure.ADMITTED)
    for request in (requests[0], requests[2], requests[1]):
        request.preemptions = 1
        policy.enqueue(request, 0)
    assert admitted(policy) == [1, 2, 3, 4]


def test_for_memory_the_newest_of_the_tenant_that_holds_most_for_its_weight_yields() -> None:
    policy = DeficitRoundRobin(weights={"bob": 10})
    holds = [(25, "cyd"), (20, "cyd"), (10, "ann"), (10, "ann"), (10, "ann"), (90, "bob")]
    requests = [make_request(prompt=prompt, tenant=tenant) for prompt, tenant in holds]
    for number, request in enumerate(requests, 1):
        request.number = request.slot = number
    assert policy.victim(requests, requests[3]) is requests[1]
    assert policy.victim(requests, make_request()) is None


def test_a_life_with_preemptions_ends() -> None:
    bench = Bench(make_scheduler(DeficitRoundRobin(quantum=16), blocks=30, max_num_seqs=8, max_num_batched_tokens=32))
    bench.add(*[make_request(prompt=16, max_tokens=24, tenant="ab"[i % 2]) for i in range(12)])
    bench.run_to_idle()
    assert bench.of(RequestPreempted)
