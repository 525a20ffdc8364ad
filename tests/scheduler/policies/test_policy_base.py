"""The queues that a policy may own, and what every policy of the catalog owes the mechanism."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest
from builders import Bench, make_request, make_scheduler, play

from scheduler.core.events import RequestFinished, RequestScheduled
from scheduler.core.policies.base import Departure, Policy, Standoff
from scheduler.core.policies.catalog import CATALOG, make
from scheduler.core.policies.fcfs import Fcfs
from scheduler.core.policies.queues import Fifo, SortedQueue, TenantQueues
from scheduler.core.request import Request, WaitReason


def keyed(number: int, key: object) -> Request:
    request = make_request()
    request.number, request.key = number, key
    return request


def test_sorted_queue_ranks_by_another_key_than_the_requests_own_where_one_is_given() -> None:
    own, other = SortedQueue(), SortedQueue()
    requests = [keyed(number, number) for number in (1, 2, 3)]
    for request in requests:
        own.push(request)
        other.push(request, -request.number)
    assert list(own) == requests and list(other) == requests[::-1]
    other.remove(requests[1], -2)
    other.remove(requests[2], -3)
    assert list(other) == requests[:1] and list(own) == requests


def test_sorted_queue_agrees_with_a_sorted_list_through_pushes_and_removals_anywhere() -> None:
    rng, queue, mirror = random.Random(4), SortedQueue(), list[tuple[int, int, Request]]()
    for number in range(6000):
        request = keyed(number, rng.randrange(300))
        queue.push(request)
        mirror.append((request.key, number, request))  # type: ignore[arg-type]
        while mirror and rng.random() < 0.45:
            gone = mirror.pop(rng.randrange(len(mirror)))
            queue.remove(gone[2])
        if number % 500 == 0:
            assert list(queue) == [entry[2] for entry in sorted(mirror, key=lambda entry: entry[:2])]
            assert len(queue) == len(mirror) and queue.first() is (min(mirror, key=lambda e: e[:2])[2] if mirror else None)
    for _, _, request in mirror:
        queue.remove(request)
    assert queue.first() is None and len(queue) == 0


def test_equal_keys_are_served_in_the_order_in_which_they_were_added() -> None:
    queue = SortedQueue()
    requests = [keyed(number, 1) for number in (5, 3, 9, 4)]
    for request in requests:
        queue.push(request)
    assert [request.number for request in queue] == [3, 4, 5, 9]


def test_fifo_lets_out_of_the_middle_and_back_to_the_front() -> None:
    fifo = Fifo()
    first, second, third = (keyed(number, None) for number in (1, 2, 3))
    for request in (first, second, third):
        fifo.push(request)
    fifo.remove(second)
    fifo.remove(first)
    fifo.push_front(first)
    assert fifo.first() is first and len(fifo) == 2


@pytest.mark.parametrize(("preempted", "back", "next_"), [(1, (2,), 1), (3, (2, 5), 2), (4, (5,), 4), (9, (2, 5), 2)])
def test_of_those_that_were_parked_and_one_that_was_preempted_the_oldest_is_first(
    preempted: int, back: tuple[int, ...], next_: int
) -> None:
    fifo, requests = Fifo(), {number: keyed(number, None) for number in (preempted, *back)}
    requests[preempted].preemptions = 1
    fifo.push_front(requests[preempted])
    for number in back:
        requests[number].parked = WaitReason.QUOTA
        fifo.push(requests[number])
        requests[number].parked = None
    assert fifo.first() is requests[next_]


@pytest.mark.parametrize("name", CATALOG)
def test_head_is_stable_and_none_only_when_nobody_waits(name: str) -> None:
    policy = make(name, {})
    requests = [keyed(number, None) for number in range(1, 6)]
    assert policy.head(0) is None
    for request in requests:
        policy.enqueue(request, 0)
    for left in range(5, 0, -1):
        head = policy.head(left)
        assert head is not None and policy.head(left + 1) is head
        policy.dequeue(head, Departure.ADMITTED if left % 2 else Departure.GONE)
    assert policy.head(0) is None


@pytest.mark.parametrize("name", CATALOG)
def test_equal_requests_are_served_in_the_order_of_submission(name: str) -> None:
    bench = Bench(make_scheduler(make(name, {}), max_num_seqs=1))
    bench.add(*[make_request(f"z{-i}", prompt=4, max_tokens=2) for i in range(30)])  # ids that do not sort by age
    bench.run_to_idle()
    numbers = [event.number for event in bench.of(RequestScheduled)]
    assert numbers == sorted(numbers) and len(numbers) == 30


@pytest.mark.parametrize("name", CATALOG)
def test_everybody_is_served_in_the_end(name: str) -> None:
    rng = random.Random(8)
    requests = [
        make_request(
            prompt=rng.randrange(1, 30), max_tokens=rng.randrange(1, 20), priority=rng.randrange(5), received_at=i * 3_000_000
        )
        for i in range(60)
    ]
    events = play(make_scheduler(make(name, {}), blocks=40), requests)
    assert {event.reason.value for event in events if isinstance(event, RequestFinished)} == {"length"}


@pytest.mark.parametrize("name", CATALOG)
@pytest.mark.parametrize("other", CATALOG)
def test_any_policy_takes_over_from_any_other(name: str, other: str) -> None:
    bench = Bench(make_scheduler(make(name, {}), blocks=30, max_num_seqs=3))
    bench.add(*[make_request(prompt=10, max_tokens=25, priority=i % 3) for i in range(10)])
    for _ in range(12):
        bench.step()
    bench.scheduler.set_policy(make(other, {}), bench.clock.now)
    bench.scheduler.check()
    bench.run_to_idle()
    assert len(bench.of(RequestFinished)) == 10


def served_without_a_pause(policy: Policy) -> bool:
    """One slot, all there: is there a token in every step until the last?"""
    rng, bench = random.Random(9), Bench(make_scheduler(policy, max_num_seqs=1))
    bench.add(*[make_request(prompt=1, max_tokens=rng.randrange(1, 9), tenant=rng.choice("ab")) for _ in range(20)])
    steps = sum(request.params.max_tokens for request in bench.scheduler.requests.values())
    for _ in range(steps):
        bench.step()
    return bench.scheduler.idle and len(bench.runner.plans) == steps


@pytest.mark.parametrize("name", CATALOG)
def test_nobody_is_held_back_while_there_is_room(name: str) -> None:
    assert served_without_a_pause(make(name, {}))


class Drowsy(Fcfs):
    """Every fifth time it is asked, it knows of nobody."""

    asked = 0

    def head(self, now: int) -> Request | None:
        self.asked += 1
        return None if self.asked % 5 == 0 else super().head(now)


def test_a_policy_that_holds_back_would_be_seen() -> None:
    with pytest.raises(AssertionError):
        assert served_without_a_pause(Drowsy())


def test_tenant_queues_keep_a_queue_only_while_somebody_is_in_it() -> None:
    queues = TenantQueues()
    requests = [keyed(number, number) for number in (2, 1, 3)]
    for request, tenant in zip(requests, ("ann", "ann", "bob"), strict=True):
        request.tenant = tenant
        queues.push(request)
    assert queues.first("ann") is requests[1] and queues.first("bob") is requests[2]
    queues.remove(requests[1])
    queues.remove(requests[2])
    assert queues.first("ann") is requests[0] and "bob" not in queues


def test_standoff_holds_until_something_changes() -> None:
    head, other, running = keyed(1, 1), keyed(2, 1), [keyed(3, 1), keyed(4, 1)]
    standoff = Standoff()
    assert not standoff.holds(head, running)
    standoff.begin(head, running, 2)
    assert standoff.holds(head, running) and not standoff.holds(other, running) and not standoff.holds(head, running[:1])
    standoff.step(False)
    assert standoff.holds(head, running)
    standoff.step(False)
    assert not standoff.holds(head, running), "two steps have passed"
    standoff.begin(head, running, float("inf"))
    standoff.step(False)
    assert standoff.holds(head, running)
    standoff.step(True)
    assert not standoff.holds(head, running), "somebody joined or left the decodes"


@pytest.mark.parametrize(("slot", "reprieve", "yields"), [(-1, -1.0, True), (-1, 0.0, False), (-1, 2.0, False), (5, 2.0, True)])
def test_worst_yields_to_one_that_waits_once_its_reprieve_is_over_and_always_to_one_that_runs(
    slot: int, reprieve: float, yields: bool
) -> None:
    standoff, needy, running, looks = Standoff(), keyed(1, 1), [keyed(2, 1), keyed(3, 1)], list[int]()
    needy.slot = slot

    def worst(among: Sequence[Request]) -> tuple[float, Request | None]:
        looks.append(len(among))
        return 7.0, among[-1]

    def ask() -> Request | None:
        return standoff.yields(needy, running, worst, lambda waiting, measure: reprieve if measure == 7.0 else -1.0)

    assert ask() is (running[1] if yields else None)
    assert ask() is (running[1] if yields else None)
    assert len(looks) == (1 if reprieve > 0 and not yields else 2), "while a reprieve lasts, nobody is looked at"


class Watched(list[Request]):
    """Counts how often somebody walks through it."""

    walks = 0

    def __iter__(self) -> Iterator[Request]:
        self.walks += 1
        return super().__iter__()


@pytest.mark.parametrize("name", ["srtf", "skip_join_mlfq", "least_slack"])
def test_who_runs_is_not_looked_at_again_while_nobody_can_yield(name: str) -> None:
    policy = make(name, {"preempt": 1} if name == "least_slack" else {})
    running = Watched([make_request(prompt=1, max_tokens=20) for _ in range(3)])
    waiting = make_request(prompt=1, max_tokens=30, deadline_at=10**12)
    for number, request in enumerate([*running, waiting], 1):
        request.number = number
        policy.enqueue(request, 0)
    for request in list(running):
        policy.dequeue(request, Departure.ADMITTED)
        request.slot = 0
        request.tokens.append(1)
    running.walks = 0
    assert policy.victim(running, waiting) is None and running.walks > 0
    running.walks = 0
    policy.tick(running, False)
    assert policy.victim(running, waiting) is None and running.walks == 0
    policy.tick(running, True)
    assert policy.victim(running, waiting) is None and running.walks > 0
