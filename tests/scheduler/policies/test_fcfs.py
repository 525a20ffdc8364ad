"""fcfs: requests are first admitted in the order in which they came."""

from __future__ import annotations

import random

from builders import MS, make_request, make_scheduler, play

from scheduler.core.events import Event, RequestScheduled
from scheduler.core.policies.base import Policy
from scheduler.core.policies.catalog import make


def run(policy: Policy) -> list[Event]:
    rng = random.Random(1)
    requests = [
        make_request(
            prompt=rng.randrange(1, 40), max_tokens=rng.randrange(1, 30), priority=rng.randrange(4), received_at=i * 20 * MS
        )
        for i in range(80)
    ]
    return play(make_scheduler(policy, blocks=40), requests)


def in_order_of_arrival(events: list[Event]) -> bool:
    firsts = [event.number for event in events if isinstance(event, RequestScheduled) and not event.resumed]
    return firsts == sorted(firsts)


def test_first_admissions_are_in_the_order_of_arrival() -> None:
    events = run(make("fcfs", {}))
    assert in_order_of_arrival(events)
    assert any(isinstance(event, RequestScheduled) and event.resumed for event in events), "preemptions were part of it"


def test_the_check_sees_a_policy_that_breaks_it() -> None:
    assert not in_order_of_arrival(run(make("sjf", {})))
