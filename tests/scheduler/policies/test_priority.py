"""priority: nobody is admitted while a better class waits; and the price, that lower classes can starve."""

from __future__ import annotations

import random

import pytest
from builders import MS, Bench, make_request, make_scheduler, play

from scheduler.core.events import Event, RequestFinished, RequestPreempted, RequestQueued, RequestScheduled
from scheduler.core.policies.base import Policy
from scheduler.core.policies.catalog import make
from scheduler.core.request import RequestState


def run(policy: Policy) -> list[Event]:
    rng = random.Random(2)
    requests = [
        make_request(
            prompt=rng.randrange(1, 20), max_tokens=rng.randrange(1, 30), priority=rng.randrange(4), received_at=i * 9 * MS
        )
        for i in range(100)
    ]
    return play(make_scheduler(policy, blocks=60), requests)


def nobody_passes_a_better_class(events: list[Event]) -> bool:
    classes: dict[int, int] = {}
    waiting: dict[int, int] = {}
    for event in events:
        match event:
            case RequestQueued():
                classes[event.seq] = waiting[event.seq] = event.priority
            case RequestPreempted():
                waiting[event.number] = classes[event.number]
            case RequestScheduled():
                if classes[event.number] > min(waiting.values()):
                    return False
                del waiting[event.number]
            case RequestFinished():
                waiting.pop(event.number, None)
    return True


@pytest.mark.parametrize("preempt", [0, 1])
def test_nobody_is_admitted_while_a_better_class_waits(preempt: int) -> None:
    assert nobody_passes_a_better_class(run(make("priority", {"preempt": preempt})))


def test_the_check_sees_a_policy_that_breaks_it() -> None:
    assert not nobody_passes_a_better_class(run(make("fcfs", {})))


def starved(policy: Policy, bound: int) -> bool:
    """One slot, a steady stream of class 0, one request of class 5: is it still waiting after `bound` ns?"""
    bench = Bench(make_scheduler(policy, max_num_seqs=1))
    low = make_request("low", max_tokens=1, priority=5)
    bench.add(make_request(max_tokens=2), low)
    while bench.clock.now < bound:
        bench.add(make_request(prompt=4, max_tokens=2))
        bench.step()
        bench.step()
    return low.state is RequestState.WAITING


def test_static_classes_starve_where_ageing_has_a_bound() -> None:
    bound = 5 * 200 * MS + 100 * MS  # gap times the difference of classes, and the step that is under way
    assert starved(make("priority", {}), bound)
    assert not starved(make("priority_aging", {"gap_ms": 200}), bound)


def test_preempting_priority_takes_the_place_of_the_worst_class() -> None:
    bench = Bench(make_scheduler(make("priority", {"preempt": 1}), max_num_seqs=2))
    middle, worst = make_request("middle", max_tokens=50, priority=3), make_request("worst", max_tokens=50, priority=7)
    bench.add(middle, worst)
    bench.step()
    bench.add(make_request("best", priority=0))
    bench.step()
    assert [event.number for event in bench.of(RequestPreempted)] == [worst.number]
