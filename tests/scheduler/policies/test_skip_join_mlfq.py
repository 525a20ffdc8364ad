"""skip_join_mlfq: who has been served least runs first. Its guarantees are in order_ and length_guarantees.py."""

from __future__ import annotations

import pytest
from builders import MS, Bench, make_request, make_scheduler

from scheduler.core.events import RequestFinished, RequestPreempted
from scheduler.core.policies.base import Departure
from scheduler.core.policies.catalog import make
from scheduler.core.policies.skip_join_mlfq import DISPLACED_AT_ONCE, DISPLACED_PER_STEP, PROMOTED_PER_STEP, SkipJoinMlfq
from scheduler.core.request import Request, WaitReason


def queued(policy: SkipJoinMlfq, *requests: Request, now: int = 0) -> None:
    for number, request in enumerate(requests, 1):
        request.number = request.number or number
        policy.enqueue(request, now)


@pytest.mark.parametrize(("prompt", "level"), [(1, 0), (160, 0), (161, 1), (320, 1), (321, 2), (640, 2), (641, 3), (9999, 3)])
def test_request_joins_at_the_level_whose_quantum_covers_its_prefill(prompt: int, level: int) -> None:
    policy, request = SkipJoinMlfq(quantum=16, levels=4, prompt_weight=0.1), make_request(prompt=[1] * prompt)
    queued(policy, request)
    assert policy.level_of(request) == level


def test_who_runs_sinks_as_its_output_grows() -> None:
    policy, request = SkipJoinMlfq(quantum=4, levels=4, prompt_weight=0), make_request(max_tokens=99)
    queued(policy, request)
    levels = []
    for _ in range(20):
        levels.append(policy.level_of(request))
        request.tokens.append(1)
    assert levels == [0] * 5 + [1] * 4 + [2] * 8 + [3] * 3


def test_newcomer_displaces_the_one_that_has_been_served_most_once_that_has_sunk() -> None:
    bench = Bench(make_scheduler(make("skip_join_mlfq", {"quantum": 8, "prompt_weight": 0}), max_num_seqs=2))
    first, second = make_request("first", max_tokens=60), make_request("second", max_tokens=60)
    bench.add(first)
    bench.step()
    bench.add(second)
    for _ in range(5):
        bench.step()
    bench.add(make_request("newcomer", max_tokens=2))
    bench.step()
    assert not bench.of(RequestPreempted), "both are on the top level still"
    while not bench.of(RequestPreempted):
        bench.step()
    assert bench.of(RequestPreempted)[0].number == first.number and first.output_tokens == 9
    bench.run_to_idle()
    assert [event.id for event in bench.of(RequestFinished)][0] == "newcomer"


def test_crowd_of_newcomers_displaces_a_few_at_once_and_then_one_every_few_steps() -> None:
    bench = Bench(make_scheduler(make("skip_join_mlfq", {"quantum": 4, "prompt_weight": 0}), max_num_seqs=16, blocks=400))
    bench.add(*[make_request(prompt=1, max_tokens=200) for _ in range(16)])
    for _ in range(10):
        bench.step()
    bench.add(*[make_request(prompt=1, max_tokens=200) for _ in range(60)])
    bench.step()
    assert len(bench.of(RequestPreempted)) == DISPLACED_AT_ONCE
    every = round(1 / DISPLACED_PER_STEP)
    for _ in range(6 * every):
        bench.step()
    assert len(bench.of(RequestPreempted)) == DISPLACED_AT_ONCE + 6
    assert all(event.urgency for event in bench.of(RequestPreempted))


def test_without_preempt_nobody_is_displaced() -> None:
    policy = make("skip_join_mlfq", {"quantum": 2, "preempt": 0})
    assert not policy.preempts


def test_preempted_request_waits_on_the_level_it_had_reached_among_those_who_came_when_it_did() -> None:
    policy = SkipJoinMlfq(quantum=4, prompt_weight=0)
    old = make_request("old", received_at=1)
    peer = make_request("peer", received_at=2)
    new = make_request("new", received_at=3)
    for request in (old, peer):
        request.tokens.extend([1] * 6)
    queued(policy, peer, old, new)
    order = []
    while head := policy.head(0):
        policy.dequeue(head, Departure.ADMITTED)
        order.append(head.id)
    assert order == ["new", "old", "peer"]


def test_who_has_waited_long_goes_to_the_top_with_its_service_forgotten() -> None:
    policy = SkipJoinMlfq(quantum=4, prompt_weight=1, promote_ms=100)
    long = make_request("long", prompt=200, received_at=5)
    short = make_request("short", prompt=1, received_at=9)
    queued(policy, long, short)
    assert policy.head(99 * MS) is short and policy.head(100 * MS) is long
    assert policy.level_of(long) == 0
    long.tokens.extend([1] * 5)
    assert policy.level_of(long) == 1, "from the top it sinks like everybody"


def test_who_waits_on_the_top_level_or_no_longer_is_not_promoted() -> None:
    policy = SkipJoinMlfq(quantum=4, prompt_weight=0, promote_ms=100)
    top, gone, ran = make_request("top"), make_request("gone"), make_request("ran")
    for request in (top, gone, ran):
        request.tokens.extend([1] * (3 if request is top else 9))
    queued(policy, top, gone, ran)
    policy.dequeue(gone, Departure.GONE)
    policy.head(500 * MS)
    top.tokens.extend([1] * 2)
    assert policy.level_of(top) == 1 and policy.level_of(ran) == 0


def test_promotion_is_bounded_in_a_step() -> None:
    policy = SkipJoinMlfq(quantum=1, prompt_weight=1, promote_ms=1)
    requests = [make_request(prompt=[1] * 50) for _ in range(3 * PROMOTED_PER_STEP)]
    queued(policy, *requests)
    policy.head(10 * MS)
    policy.head(10 * MS)
    assert [policy.level_of(request) for request in requests].count(0) == PROMOTED_PER_STEP
    policy.head(11 * MS)
    assert [policy.level_of(request) for request in requests].count(0) == 2 * PROMOTED_PER_STEP


def test_who_comes_back_from_being_parked_is_what_it_was() -> None:
    policy = SkipJoinMlfq(quantum=1, prompt_weight=1, promote_ms=1)
    request = make_request(prompt=50)
    queued(policy, request)
    policy.head(10 * MS)
    policy.dequeue(request, Departure.PARKED)
    request.parked = WaitReason.QUOTA
    policy.enqueue(request, 20 * MS)
    assert policy.level_of(request) == 0, "its promotion stands"


def test_for_memory_the_most_served_yields_and_of_equals_the_newest() -> None:
    policy = SkipJoinMlfq()
    requests = [make_request(prompt=4) for _ in range(4)]
    queued(policy, *requests)
    for request, output in zip(requests, (3, 9, 9, 1), strict=True):
        request.tokens.extend([1] * output)
        request.slot = 1
    assert policy.victim(requests, requests[0]) is requests[2]
    assert policy.victim([], requests[0]) is None
