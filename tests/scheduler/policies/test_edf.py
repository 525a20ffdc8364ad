"""edf: the largest lateness is the least possible, for requests that are all there and served one at a time."""

from __future__ import annotations

import random
from itertools import permutations

from builders import MS, Bench, make_request, make_scheduler, run_to_idle

from scheduler.core.events import RequestFinished, RequestPreempted
from scheduler.core.policies.base import Policy
from scheduler.core.policies.catalog import make
from scheduler.core.request import Request


def jobs(seed: int) -> list[Request]:
    rng = random.Random(seed)
    return [
        make_request(f"job{i}", prompt=4, max_tokens=rng.randrange(1, 8), deadline_at=rng.randrange(10, 260) * MS)
        for i in range(5)
    ]


def lateness(policy: Policy, requests: list[Request]) -> int:
    """The largest, ns."""
    due = {request.id: request.deadline_at or 0 for request in requests}
    events = run_to_idle(make_scheduler(policy, max_num_seqs=1), requests)
    return max(event.at - due[event.id] for event in events if isinstance(event, RequestFinished))


def least_possible(seed: int) -> int:
    return min(lateness(make("fcfs", {}), [jobs(seed)[i] for i in order]) for order in permutations(range(5)))


def test_no_order_has_a_smaller_largest_lateness() -> None:
    for seed in range(6):
        assert lateness(make("edf", {}), jobs(seed)) == least_possible(seed)


def test_the_check_sees_a_policy_that_breaks_it() -> None:
    for name in ("fcfs", "sjf"):
        assert any(lateness(make(name, {}), jobs(seed)) > least_possible(seed) for seed in range(6))


def test_who_names_no_deadline_is_due_by_default() -> None:
    bench = Bench(make_scheduler(make("edf", {"default_ms": 100}), max_num_seqs=1))
    bench.add(make_request("late", deadline_at=200 * MS), make_request("default"), make_request("soon", deadline_at=50 * MS))
    bench.run_to_idle()
    assert [event.id for event in bench.of(RequestFinished)] == ["soon", "default", "late"]


def test_earlier_deadline_displaces_the_one_that_is_due_last_if_asked() -> None:
    bench = Bench(make_scheduler(make("edf", {"preempt": 1}), max_num_seqs=2))
    bench.add(
        make_request("far", max_tokens=50, deadline_at=900 * MS), make_request("near", max_tokens=50, deadline_at=500 * MS)
    )
    bench.step()
    bench.add(make_request("now", max_tokens=2, deadline_at=60 * MS))
    bench.run_to_idle()
    order = [event.id for event in bench.of(RequestFinished)]
    assert len(bench.of(RequestPreempted)) == 1 and order == ["now", "near", "far"]


def test_an_equal_deadline_displaces_nobody() -> None:
    bench = Bench(make_scheduler(make("edf", {"preempt": 1}), max_num_seqs=1))
    bench.add(make_request("runs", max_tokens=20, deadline_at=900 * MS))
    bench.step()
    bench.add(make_request("equal", max_tokens=1, deadline_at=900 * MS))
    bench.run_to_idle()
    assert not bench.of(RequestPreempted)
