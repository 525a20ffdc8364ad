"""weighted_score: whatever the weights do, overtaking is bounded by B / alpha."""

from __future__ import annotations

import random

import pytest
from builders import MS, Bench, make_request, make_scheduler, play

from scheduler.core.events import Event, RequestFinished, RequestQueued, RequestScheduled
from scheduler.core.policies import weighted_score
from scheduler.core.policies.base import Policy
from scheduler.core.policies.catalog import make
from scheduler.core.policies.weighted_score import HELD_STEPS, WeightedScore
from scheduler.core.request import Request

SECOND = 1000 * MS


def waves() -> list[Request]:
    """Overload in waves, so that the weights change, with one heavy tenant and few patient requests."""
    rng, requests, now = random.Random(5), [], 0
    for wave in range(6):
        for _ in range(140):
            now += (8 if wave % 2 == 0 else 26) * MS
            requests.append(
                make_request(
                    prompt=rng.randrange(1, 30),
                    max_tokens=rng.randrange(1, 5),
                    priority=rng.choice([0, 0, 0, 10]),
                    kind=rng.choice(["interactive", "interactive", "background", "odd"]),
                    tenant=rng.choice(["heavy", "heavy", "light"]),
                    deadline_at=rng.choice([None, now + SECOND]),
                    received_at=now,
                )
            )
    return requests


def run(policy: Policy) -> list[Event]:
    return play(make_scheduler(policy, max_num_seqs=2, max_num_batched_tokens=32), waves())


def worst_overtake(events: list[Event]) -> int:
    """The largest age by which a request that was first admitted is younger than one left waiting, ns."""
    waiting: dict[int, int] = {}
    worst = 0
    for event in events:
        match event:
            case RequestQueued():
                waiting[event.seq] = event.received_at
            case RequestScheduled() if not event.resumed:
                passing = waiting.pop(event.number)
                worst = max([worst, *[passing - left for left in waiting.values()]])
            case RequestFinished():
                waiting.pop(event.number, None)
    return worst


class Watched(WeightedScore):
    """Notes how often its weights change."""

    changes = 0

    def _choose(self) -> None:
        before = self.weights
        super()._choose()
        self.changes += before is not self.weights


def test_overtaking_is_bounded_by_the_largest_score_over_alpha_while_weights_move() -> None:
    policy = Watched(alpha=20.0, busy_waiting=40.0)
    worst = worst_overtake(run(policy))
    assert policy.changes >= 3, "the weights were meant to move"
    assert policy.bound_ns / 4 < worst <= policy.bound_ns


def test_the_check_sees_a_policy_that_breaks_it() -> None:
    assert worst_overtake(run(make("priority", {}))) > Watched(alpha=20.0).bound_ns


def ranked(**weights: float) -> list[str]:
    """Who runs in which order, by these weights alone."""
    zero = {f"w_{name}": 0.0 for name in ("priority", "kind", "length", "deadline", "tenant")}
    bench = Bench(make_scheduler(make("weighted_score", zero | weights), max_num_seqs=1, max_num_batched_tokens=2048))
    bench.add(
        make_request("a", prompt=400, priority=1, kind="background", tenant="x", max_tokens=1),
        make_request("b", prompt=40, priority=9, kind="interactive", tenant="x", deadline_at=40 * SECOND, max_tokens=1),
        make_request("c", prompt=90, priority=5, kind="batch", tenant="y", deadline_at=9 * SECOND, max_tokens=1),
    )
    bench.run_to_idle()
    return [event.id for event in bench.of(RequestFinished)]


@pytest.mark.parametrize(
    ("weight", "order"), [("priority", "acb"), ("kind", "bca"), ("length", "bca"), ("deadline", "cba"), ("tenant", "acb")]
)
def test_each_factor_orders_as_it_says(weight: str, order: str) -> None:
    assert "".join(ranked(**{f"w_{weight}": 1.0})) == order


def test_waiting_makes_up_for_a_worse_score() -> None:
    bench = Bench(make_scheduler(make("weighted_score", {"alpha": 100.0}), max_num_seqs=1))
    bench.add(make_request("old", priority=9))
    bench.clock.tick(200 * MS)
    bench.add(make_request("young", priority=0))
    bench.run_to_idle()
    assert [event.id for event in bench.of(RequestFinished)] == ["old", "young"]


def test_weights_change_with_hysteresis_and_stand_for_a_while() -> None:
    policy = Watched(busy_waiting=10.0)
    requests = [make_request() for _ in range(40)]
    for number, request in enumerate(requests, 1):
        request.number = number
        policy.enqueue(request, 0)
    ticks = 0
    while not policy.changes:
        policy.tick((), False)
        ticks += 1
    assert ticks > 1, "one glance at the queue is not a load"
    for request in requests:
        policy.dequeue(request, weighted_score.Departure.GONE)
    for _ in range(HELD_STEPS):
        policy.tick((), False)
    assert policy.changes == 1
    for _ in range(100):
        policy.tick((), False)
    assert policy.changes == 2


def test_change_of_weights_holds_for_everybody_at_once() -> None:
    policy = WeightedScore(busy_waiting=10.0)
    urgent = make_request("urgent", priority=3, max_tokens=4000, deadline_at=0)
    short = make_request("short", priority=4, max_tokens=1, deadline_at=0)
    crowd = [make_request(priority=10, max_tokens=4000, deadline_at=60 * SECOND) for _ in range(2000)]
    for number, request in enumerate([urgent, short, *crowd], 1):
        request.number = number
        policy.enqueue(request, 0)
    assert policy.head(0) is short, "0.4 more for its class, 0.97 less for its length"
    policy.tick((), False)
    assert policy.head(0) is urgent, "0.8 more, and 0.48 less"
    policy.dequeue(urgent, weighted_score.Departure.ADMITTED)
    assert policy.head(0) is short
    for request in (short, *crowd):
        policy.dequeue(request, weighted_score.Departure.GONE)
    for _ in range(HELD_STEPS + 100):
        policy.tick((), False)
    for request in (urgent, short):
        policy.enqueue(request, 0)
    assert policy.head(0) is short, "calm again, and whoever was admitted is in neither queue until it is back"


def test_who_ran_when_it_took_over_has_a_score_too_so_that_the_worst_yields() -> None:
    bench = Bench(make_scheduler(max_num_seqs=2))
    worst, better = make_request(kind="background", priority=9), make_request(kind="interactive")
    bench.add(worst, better)
    bench.step()
    policy = WeightedScore()
    bench.scheduler.set_policy(policy, bench.clock.now)
    assert policy.victim([worst, better], better) is worst


def test_no_factor_counts_for_more_than_the_worst_there_is() -> None:
    factors = WeightedScore()._factors(make_request(prompt=5000, priority=12, deadline_at=70 * SECOND))
    assert (factors.length, factors.priority, factors.deadline) == (1, 1, 1)


def test_load_begins_at_nothing_and_nears_what_waits_by_a_twentieth_a_step() -> None:
    policy, load = Watched(busy_waiting=1.0), 0.0
    for number in (1, 2):
        request = make_request()
        request.number = number
        policy.enqueue(request, 0)
    while load <= 1:
        assert not policy.changes
        policy.tick((), False)
        load += (2 - load) / 20
    assert policy.changes == 1
