"""What holds of every order of the catalog, whatever it orders by."""

from __future__ import annotations

import inspect

import pytest
from builders import MS, Bench, make_request, make_scheduler

from scheduler.core.blocks import BlockPool
from scheduler.core.policies.base import Departure, Policy
from scheduler.core.policies.catalog import CATALOG, make
from scheduler.core.policies.deficit_longest_prefix import DeficitLongestPrefix
from scheduler.core.policies.prefixes import CHECKS, WAKE_UPS
from scheduler.core.policies.queues import Fifo
from scheduler.core.policies.weighted_score import WeightedScore
from scheduler.core.request import Request, WaitReason

PREFIX_ORDERS = ("longest_prefix", "deficit_longest_prefix")


def running(name: str, number: int, had: int, left: int) -> tuple[Policy, list[Request]]:
    """An order, and so many requests that it took in, each of which has had some output and has some left."""
    policy = make(name, {})
    requests = [make_request(prompt=4, max_tokens=had + left) for _ in range(number)]
    for request in requests:
        request.number = 1 + requests.index(request)
        policy.enqueue(request, 0)
    for request in requests:
        policy.dequeue(request, Departure.ADMITTED)
        request.slot = request.number - 1
        request.tokens.extend([1] * had)
        request.computed = len(request.tokens) - 1
    return policy, requests


@pytest.mark.parametrize("name", CATALOG)
def test_made_by_hand_it_has_the_parameters_that_the_catalog_makes_it_with(name: str) -> None:
    told = {param.name: param.default for param in CATALOG[name].params if param.family is None}
    signature = inspect.signature(type(make(name, {})))
    assert {key: spec.default for key, spec in signature.parameters.items() if key in told} == told


@pytest.mark.parametrize("name", CATALOG)
@pytest.mark.parametrize("left", [1, 2])
def test_for_memory_somebody_always_yields_also_near_the_end_and_of_equals_the_newest(name: str, left: int) -> None:
    policy, (one, other) = running(name, 2, 8, left)
    assert policy.victim([one], one) is one
    assert policy.victim([one, other], one) is policy.victim([other, one], one) is other
    assert policy.victim([], one) is None


@pytest.mark.parametrize("name", PREFIX_ORDERS)
def test_news_that_nobody_waits_for_any_more_is_no_trouble(name: str) -> None:
    pool = BlockPool(8, 4)
    policy = make(name, {}, pool)
    request = make_request(prompt=range(9))
    request.number = 1
    policy.enqueue(request, 0)
    table = pool.take(2)
    pool.publish(table[:1], pool.root(request.tenant), [request.tokens[:4].tobytes()])
    assert policy.head(0) is request
    pool.publish(table[1:], pool.place_of(table[:1]), [request.tokens[4:8].tobytes()])
    policy.dequeue(request, Departure.ADMITTED)
    assert policy.head(0) is None


@pytest.mark.parametrize("name", PREFIX_ORDERS)
def test_head_that_lost_its_prefix_unheard_gives_way_in_the_same_step(name: str) -> None:
    pool = BlockPool(2, 4)
    policy = make(name, {}, pool)
    plain, hits = make_request(prompt=9), make_request(prompt=range(9))
    table = pool.take(2)
    pool.publish(table, pool.root(hits.tenant), [hits.tokens[:4].tobytes(), hits.tokens[4:8].tobytes()])
    pool.release(table)
    for number, request in enumerate((plain, hits), 1):
        request.number = number
        policy.enqueue(request, 0)
    pool.take(1)
    assert policy.head(0) is hits, "a block of it is left"
    pool.take(1)
    assert policy.head(0) is plain, "though what the step tells was read already"


@pytest.mark.parametrize("name", PREFIX_ORDERS)
def test_whose_prefix_is_cached_while_it_waits_goes_before_those_who_came_with_it_and_none_is_lost(name: str) -> None:
    bench = Bench(make_scheduler(make(name, {}), max_num_seqs=1))
    bench.scheduler.set_policy(make(name, {}, bench.scheduler.pool), 0)
    first = make_request("first", prompt=range(40, 60), max_tokens=2)
    others = [make_request(f"r{i}", prompt=12, max_tokens=1) for i in range(3)]
    late = make_request("late", prompt=[*range(40, 60), 7], max_tokens=1)
    bench.add(first, *others, late)
    bench.run_to_idle()
    order = [event.number for event in bench.events if type(event).__name__ == "RequestScheduled"]
    assert order == [request.number for request in (first, late, *others)]


@pytest.mark.parametrize("name", PREFIX_ORDERS)
def test_however_often_a_step_asks_for_the_head_it_reads_a_bounded_number_of_news(name: str) -> None:
    pool = BlockPool(8, 4)
    policy = make(name, {}, pool)
    requests = [make_request(prompt=range(9), received_at=MS) for _ in range(2 * WAKE_UPS + CHECKS)]
    for number, request in enumerate(requests, 1):
        request.number = number
        policy.enqueue(request, 0)
    pool.publish(pool.take(1), pool.root("default"), [requests[0].tokens[:4].tobytes()])
    before = requests[0].key
    for _ in range(3):
        policy.head(0)
    assert sum(request.key != before for request in requests) == WAKE_UPS
    policy.tick((), False)
    policy.head(0)
    assert sum(request.key != before for request in requests) == 2 * WAKE_UPS


def test_services_last_chunk_is_paid_for_with_the_token_that_it_gives() -> None:
    policy = DeficitLongestPrefix(None, quantum=1000, w_output=7)
    request = make_request(prompt=9)
    for computed, tokens, paid in ((0, 4, 4), (4, 4, 8), (8, 1, 9 + 7)):
        request.computed = computed
        policy.served(request, tokens)
        assert policy._paid["default"] == paid


def test_who_was_promoted_leaves_the_queue_whole() -> None:
    policy = make("skip_join_mlfq", {"quantum": 1, "promote_ms": 5})
    request = make_request(prompt=400)
    request.number = 1
    policy.enqueue(request, 100 * MS)
    assert policy.head(105 * MS - 1) is request and request.key == (5, request.received_at)
    assert policy.head(105 * MS) is request and request.key == (0, request.received_at)
    policy.dequeue(request, Departure.ADMITTED)
    assert policy.head(109 * MS) is None


def test_who_left_counts_no_more_for_its_tenants_share_of_the_queue() -> None:
    policy = WeightedScore()
    stays, leaves = make_request(tenant="ann"), make_request(tenant="ann")
    for number, request in enumerate((stays, leaves), 1):
        request.number = number
        policy.enqueue(request, 0)
    policy.dequeue(leaves, Departure.GONE)
    assert policy._factors(make_request(tenant="ann")).tenant == 1 / 2
    policy.dequeue(stays, Departure.GONE)
    assert policy._factors(make_request(tenant="ann")).tenant == 0 and not policy._tenants


@pytest.mark.parametrize("name", ["vtc", "deficit_round_robin", "deficit_longest_prefix"])
def test_a_tenant_that_nobody_knows_has_been_served_nothing(name: str) -> None:
    policy, (stranger, known) = running(name, 2, 8, 2)
    stranger.tenant = "stranger"
    if name == "vtc":
        policy._used["default"] = 0.0  # type: ignore[attr-defined]
    assert policy.victim([stranger, known], known) is known


@pytest.mark.parametrize("name", ["vtc", "deficit_round_robin"])
@pytest.mark.parametrize("named", ["ann", "bob"])
def test_a_tenant_without_a_weight_has_that_of_one(name: str, named: str) -> None:
    policy = make(name, {f"weight.{named}": 1.0})
    both = [make_request(prompt=4, max_tokens=9, tenant=tenant) for tenant in ("ann", "bob")]
    for number, request in enumerate(both, 1):
        request.number = number
        policy.enqueue(request, 0)
    for request in both:
        policy.dequeue(request, Departure.ADMITTED)
        request.slot = request.number - 1
    for turn in range(3):
        assert policy.victim(both, both[0]) is both[1], f"as much of each: the newest, in turn {turn}"
        policy.tick(both, turn == 0)


def test_a_fifo_counts_those_who_came_back_too() -> None:
    fifo, first, second = Fifo(), make_request(), make_request()
    first.number, second.number, first.parked = 1, 2, WaitReason.KV_BLOCKS
    fifo.push(second)
    fifo.push(first)
    assert len(fifo) == 2 and fifo.first() is first
