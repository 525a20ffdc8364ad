"""priority_aging: nobody is overtaken by a request that arrived more than gap · (difference of classes) later."""

from __future__ import annotations

import random

from builders import MS, make_request, make_scheduler, play

from scheduler.core.events import Event, RequestFinished, RequestQueued, RequestScheduled
from scheduler.core.policies.base import Policy
from scheduler.core.policies.catalog import make

GAP = 150 * MS


def run(policy: Policy) -> list[Event]:
    """Overload, mostly of class 0."""
    rng = random.Random(3)
    requests = [
        make_request(prompt=4, max_tokens=rng.randrange(1, 9), priority=rng.choice([0, 0, 0, 0, 1, 3]), received_at=i * 12 * MS)
        for i in range(400)
    ]
    return play(make_scheduler(policy, max_num_seqs=2), requests)


def worst_excess(events: list[Event]) -> int:
    """By how much, ns, the farthest overtaking passes gap · (difference of classes); <= 0 keeps the promise."""
    waiting: dict[int, RequestQueued] = {}
    worst = -(10**18)
    for event in events:
        match event:
            case RequestQueued():
                waiting[event.seq] = event
            case RequestScheduled() if not event.resumed:
                passing = waiting.pop(event.number)
                for left in waiting.values():
                    later = passing.received_at - left.received_at
                    if later > 0:
                        worst = max(worst, later - GAP * (left.priority - passing.priority))
            case RequestFinished():
                waiting.pop(event.number, None)
    return worst


def test_overtaking_is_bounded_by_the_gap() -> None:
    worst = worst_excess(run(make("priority_aging", {"gap_ms": GAP / MS})))
    assert -GAP < worst <= 0, "the bound holds, and is nearly reached"


def test_the_check_sees_a_policy_that_breaks_it() -> None:
    assert worst_excess(run(make("priority", {}))) > 10 * GAP


def test_no_gap_is_first_come_first_served() -> None:
    assert [e for e in run(make("priority_aging", {"gap_ms": 0})) if isinstance(e, RequestScheduled)] == [
        e for e in run(make("fcfs", {})) if isinstance(e, RequestScheduled)
    ]
