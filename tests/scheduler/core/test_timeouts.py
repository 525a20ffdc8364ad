"""Hard time limits: exact at the step's end, cheap for requests that end before."""

from __future__ import annotations

import random

from builders import MS, Bench, make_request, make_scheduler

from scheduler.core.request import Request, RequestState
from scheduler.core.timeouts import BUCKET_NS, MOVED, Timeouts


def limited(number: int, at: int | None) -> Request:
    request = make_request(timeout_at=at)
    request.number = number
    return request


def test_request_is_due_exactly_at_its_time_and_earliest_first() -> None:
    timeouts = Timeouts()
    late, early, never = limited(1, 900 * MS), limited(2, 300 * MS), limited(3, None)
    for request in (late, early, never):
        timeouts.add(request)
    assert timeouts.due(300 * MS - 1, 9) == []
    assert timeouts.due(300 * MS, 9) == [early]
    assert timeouts.due(10**15, 9) == [late]


def test_ended_request_is_never_due_whether_near_or_far() -> None:
    timeouts = Timeouts()
    near, far = limited(1, 100 * MS), limited(2, 100 * BUCKET_NS)
    for request in (near, far):
        timeouts.add(request)
    assert timeouts.due(0, 9) == []
    for request in (near, far):
        request.state = RequestState.FINISHED
        timeouts.remove(request)
    assert timeouts.due(10**15, 9) == []


def test_a_hundred_thousand_equal_time_outs_are_spread_over_calls() -> None:
    timeouts = Timeouts()
    for number in range(5000):
        timeouts.add(limited(number, 400 * BUCKET_NS))
    assert timeouts.due(399 * BUCKET_NS, 256) == [], "moved near one bucket ahead of time"
    assert len(timeouts._near) == MOVED
    seen = []
    for call in range(40):
        due = timeouts.due(400 * BUCKET_NS + call, 256)
        assert len(due) <= 256
        seen += [request.number for request in due]
    assert sorted(seen) == list(range(5000))


def test_agrees_with_a_sorted_list() -> None:
    rng, timeouts, live, now = random.Random(2), Timeouts(), dict[int, Request](), 0
    for number in range(3000):
        now += rng.randrange(20) * MS
        request = limited(number, now + rng.randrange(3000) * MS)
        live[number] = request
        timeouts.add(request)
        if rng.random() < 0.3:
            gone = live.pop(rng.choice(list(live)))
            gone.state = RequestState.FINISHED
            timeouts.remove(gone)
        expected = sorted((r.timeout_at or 0, n) for n, r in live.items() if (r.timeout_at or 0) <= now)
        assert [r.number for r in timeouts.due(now, 999)] == [n for _, n in expected]
        for _, n in expected:
            live.pop(n).state = RequestState.FINISHED


def test_those_who_ended_in_time_cost_the_call_that_finds_who_is_due_nothing() -> None:
    timeouts, ended = Timeouts(), [limited(number, 9 * BUCKET_NS) for number in range(1, 3 * MOVED)]
    stays = limited(0, 9 * BUCKET_NS)
    for request in [*ended, stays]:
        timeouts.add(request)
    for request in ended:
        request.state = RequestState.FINISHED
        timeouts.remove(request)
    assert timeouts.due(9 * BUCKET_NS, 1) == [stays]


def test_who_ended_is_watched_no_longer() -> None:
    bench = Bench(make_scheduler())
    bench.add(make_request(timeout_at=400 * BUCKET_NS), make_request("waits", timeout_at=400 * BUCKET_NS))
    bench.scheduler.abort("waits", 0)
    bench.run_to_idle()
    assert not any(bench.scheduler._life.timeouts._far.values())
