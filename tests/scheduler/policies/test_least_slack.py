"""least_slack: the deadline less the time still needed. Its guarantee is in guarantees/deadline_guarantees.py."""

from __future__ import annotations

import pytest
from builders import MS, Bench, make_request, make_scheduler

from scheduler.core.events import RequestFinished, RequestPreempted
from scheduler.core.policies.catalog import make
from scheduler.core.policies.least_slack import LeastSlack

EXACT = {"prompt_ms": 0.0, "output_ms": 10.0}


def finished(bench: Bench) -> list[str]:
    bench.run_to_idle()
    return [event.id for event in bench.of(RequestFinished)]


def test_long_request_of_a_later_deadline_goes_before_a_short_one_that_can_afford_to_wait() -> None:
    bench = Bench(make_scheduler(make("least_slack", EXACT), max_num_seqs=1))
    bench.add(
        make_request("short", max_tokens=2, deadline_at=300 * MS),
        make_request("long", max_tokens=30, deadline_at=350 * MS),
    )
    assert finished(bench) == ["long", "short"]


def test_prompt_takes_time_too_and_who_names_no_deadline_is_due_by_default() -> None:
    policy = LeastSlack(default_ms=1000, prompt_ms=2, output_ms=10)
    request = make_request(prompt=50, max_tokens=20, received_at=7 * MS)
    assert policy.key_of(request, 0) == (7 + 1000 - 100 - 200) * MS
    hinted = make_request(prompt=50, max_tokens=20, expected_output_tokens=5, deadline_at=400 * MS)
    assert policy.key_of(hinted, 0) == (400 - 100 - 50) * MS


@pytest.mark.parametrize(("slack", "displaces"), [(100, True), (50, False)])
def test_only_slack_beyond_the_margin_displaces(slack: int, displaces: bool) -> None:
    policy = make("least_slack", {**EXACT, "preempt": 1, "margin_ms": 60})
    bench = Bench(make_scheduler(policy, max_num_seqs=1))
    bench.add(make_request("runs", max_tokens=10, deadline_at=(100 + slack + 10) * MS))
    bench.step()
    due = bench.clock.now + 30 * MS + 10 * MS  # 10 ms of slack; who runs has `slack` more
    bench.add(make_request("comes", prompt=1, max_tokens=3, deadline_at=due))
    bench.step()
    assert bool(bench.of(RequestPreempted)) is displaces
    bench.run_to_idle()


def test_who_runs_gains_slack_until_it_has_more_than_who_waits() -> None:
    policy = make("least_slack", {**EXACT, "preempt": 1, "margin_ms": 50})
    bench = Bench(make_scheduler(policy, max_num_seqs=1))
    bench.add(make_request("runs", prompt=1, max_tokens=40, deadline_at=400 * MS))
    bench.add(make_request("waits", prompt=1, max_tokens=40, deadline_at=401 * MS))
    while not bench.of(RequestPreempted):
        bench.step()
    # in step 7 "runs" has 60 ms of slack, "waits" 1 ms - 60 ms; displaced once the difference passes the margin
    assert bench.clock.now == 70 * MS
    bench.run_to_idle()


def test_without_preempt_nobody_is_displaced() -> None:
    bench = Bench(make_scheduler(make("least_slack", EXACT), max_num_seqs=1))
    bench.add(make_request(max_tokens=20, deadline_at=9000 * MS))
    bench.step()
    bench.add(make_request(deadline_at=50 * MS))
    bench.run_to_idle()
    assert not bench.of(RequestPreempted)


def test_preempted_request_ranks_by_the_slack_that_it_has_then() -> None:
    policy = LeastSlack(prompt_ms=1, output_ms=10)
    request = make_request(prompt=8, max_tokens=20, deadline_at=1000 * MS)
    policy.enqueue(request, 0)
    request.tokens.extend([1] * 12)
    policy.enqueue(request, 0)
    assert request.key == (1000 - 20 - 80) * MS, "20 tokens to compute again, 8 still to come"


def test_who_has_more_of_its_prompt_to_compute_has_less_slack() -> None:
    policy = LeastSlack(prompt_ms=1, output_ms=10)
    begun, done = make_request(prompt=90, max_tokens=4, deadline_at=800 * MS), make_request(max_tokens=4, deadline_at=750 * MS)
    for number, request in enumerate((begun, done), 1):
        request.number = request.slot = number
        policy.enqueue(request, 0)
    begun.computed, done.computed = 20, 8
    assert policy.victim([begun, done], done) is done, "750 ms less 40, against 800 less 40 and 70"
    begun.computed = 60
    assert policy.victim([begun, done], done) is begun


def test_for_memory_the_one_with_most_slack_yields_and_of_equals_the_newest() -> None:
    policy = make("least_slack", EXACT)
    requests = [make_request(max_tokens=4, deadline_at=due * MS) for due in (90, 700, 700, 80)]
    for number, request in enumerate(requests, 1):
        request.number = number
        policy.enqueue(request, 0)
        request.slot = number
    assert policy.victim(requests, requests[0]) is requests[2]
    assert policy.victim([], requests[0]) is None
