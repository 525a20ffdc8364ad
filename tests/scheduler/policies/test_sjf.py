"""sjf: whoever is admitted is the shortest that waits; nothing is shorter on average for jobs that are all there."""

from __future__ import annotations

import random
from itertools import permutations

from builders import MS, make_request, make_scheduler, play, run_to_idle

from scheduler.core.events import Event, RequestFinished, RequestQueued, RequestScheduled
from scheduler.core.policies.base import Policy
from scheduler.core.policies.catalog import make
from scheduler.core.policies.sjf import size_of
from scheduler.core.request import Request

JOBS = [(4, 9), (4, 2), (4, 5), (4, 13), (4, 1)]


def jobs() -> list[Request]:
    return [make_request(f"job{i}", prompt=prompt, max_tokens=output) for i, (prompt, output) in enumerate(JOBS)]


def shortest_first(policy: Policy) -> bool:
    rng = random.Random(4)
    requests = [
        make_request(prompt=rng.randrange(1, 30), max_tokens=rng.randrange(1, 20), received_at=i * 15 * MS) for i in range(80)
    ]
    sizes: dict[int, int] = {}
    events = play(make_scheduler(policy, max_num_seqs=1), requests)
    for event in events:
        if isinstance(event, RequestQueued):
            sizes[event.seq] = event.prompt_tokens + event.max_tokens
        if isinstance(event, RequestScheduled):
            if sizes[event.number] > min(sizes.values()):
                return False
            del sizes[event.number]
    return True


def mean_response(policy: Policy, requests: list[Request]) -> float:
    events: list[Event] = run_to_idle(make_scheduler(policy, max_num_seqs=1), requests)
    totals = [event.parts.total for event in events if isinstance(event, RequestFinished)]
    return sum(totals) / len(totals)


def test_whoever_is_admitted_is_the_shortest_of_all_who_wait() -> None:
    assert shortest_first(make("sjf", {}))


def test_no_order_of_known_jobs_has_a_smaller_mean_response_time() -> None:
    best = min(
        mean_response(make("fcfs", {}), list(order)) for order in ([jobs()[i] for i in p] for p in permutations(range(5)))
    )
    assert mean_response(make("sjf", {}), jobs()) == best


def test_the_checks_see_a_policy_that_breaks_them() -> None:
    assert not shortest_first(make("fcfs", {}))
    assert mean_response(make("fcfs", {}), jobs()) > mean_response(make("sjf", {}), jobs())


def test_hint_counts_before_max_tokens() -> None:
    assert size_of(make_request(prompt=10, max_tokens=500, expected_output_tokens=20)) == 30
    assert size_of(make_request(prompt=10, max_tokens=500)) == 510
