"""srtf: the least remaining work first; only the young yield. Its guarantee is in guarantees/length_guarantees.py."""

from __future__ import annotations

import pytest
from builders import Bench, make_request, make_scheduler

from scheduler.core.events import RequestFinished, RequestPreempted
from scheduler.core.policies.catalog import make
from scheduler.core.request import Request


def bench_after(tokens: int, holder: Request, **params: float) -> Bench:
    """One slot, held by a request that has had so many tokens."""
    bench = Bench(make_scheduler(make("srtf", params), max_num_seqs=1))
    bench.add(holder)
    while holder.output_tokens < tokens:
        bench.step()
    return bench


@pytest.mark.parametrize(("had", "yields"), [(15, True), (16, False)])
def test_who_runs_yields_only_while_its_output_is_below_the_share(had: int, yields: bool) -> None:
    bench = bench_after(had, make_request("long", max_tokens=20))
    bench.add(make_request("short", prompt=1, max_tokens=2))
    bench.run_to_idle()
    assert bool(bench.of(RequestPreempted)) is yields
    assert [event.id for event in bench.of(RequestFinished)] == (["short", "long"] if yields else ["long", "short"])


def test_share_of_nothing_never_displaces_and_of_all_always_may() -> None:
    assert not make("srtf", {"preempt_below": 0}).preempts
    bench = bench_after(15, make_request("long", max_tokens=20), preempt_below=1)
    bench.add(make_request("more", prompt=1, max_tokens=5), make_request("less", prompt=1, max_tokens=4))
    bench.run_to_idle()
    assert [event.id for event in bench.of(RequestFinished)] == ["less", "long", "more"], "5 tokens left are not more than 5"


def test_preempted_request_ranks_by_what_it_has_left() -> None:
    bench = bench_after(12, make_request("long", max_tokens=20))
    bench.add(make_request("urgent", prompt=1, max_tokens=2), make_request("middle", prompt=1, max_tokens=11))
    bench.run_to_idle()
    assert [event.id for event in bench.of(RequestFinished)] == ["urgent", "long", "middle"]


def test_hint_counts_before_max_tokens_but_never_for_more() -> None:
    bench = Bench(make_scheduler(make("srtf", {}), max_num_seqs=1))
    bench.add(
        make_request("plain", max_tokens=10),
        make_request("hinted", max_tokens=90, expected_output_tokens=5),
        make_request("boaster", max_tokens=7, expected_output_tokens=5000),
    )
    bench.run_to_idle()
    assert [event.id for event in bench.of(RequestFinished)] == ["hinted", "boaster", "plain"]


def test_prompt_counts_until_it_is_computed() -> None:
    bench = Bench(make_scheduler(make("srtf", {"prompt_weight": 1}), max_num_seqs=1, max_num_batched_tokens=10))
    long = make_request("long", prompt=40, max_tokens=10)
    bench.add(long)
    bench.step()
    bench.add(make_request("short", prompt=2, max_tokens=37))
    bench.step()
    assert bench.of(RequestPreempted)[0].number == long.number, "it has 40 left, the other 39"
    bench.run_to_idle()


def test_for_memory_the_one_with_most_left_yields_and_of_equals_the_newest() -> None:
    policy = make("srtf", {})
    requests = [make_request(prompt=4, max_tokens=length) for length in (9, 200, 200, 12)]
    for number, request in enumerate(requests, 1):
        request.number = number
        policy.enqueue(request, 0)
        request.slot = number
    for old in requests[1:3]:
        old.tokens.extend([1] * 180)  # young no longer, and 20 still to come
    assert policy.victim(requests, requests[0]) is requests[2]
    assert policy.victim([], requests[0]) is None


@pytest.mark.parametrize(("had", "yields"), [((20, 20, 20), 2), ((18, 19, 19), 0), ((30, 18, 19), 1)])
def test_for_memory_one_token_left_is_the_least_and_less_than_two(had: tuple[int, ...], yields: int) -> None:
    policy, requests = make("srtf", {}), [make_request(prompt=4, max_tokens=20) for _ in had]
    for number, (request, tokens) in enumerate(zip(requests, had, strict=True), 1):
        request.number = number
        policy.enqueue(request, 0)
        request.slot = number
        request.tokens.extend([1] * tokens)
    assert policy.victim(requests, requests[0]) is requests[yields]


def test_everybody_gets_a_rank_when_it_takes_over() -> None:
    bench = Bench(make_scheduler(max_num_seqs=1))
    bench.add(make_request("runs", max_tokens=30), make_request("b", max_tokens=9), make_request("c", max_tokens=3))
    bench.step()
    bench.scheduler.set_policy(make("srtf", {}), bench.clock.now)
    bench.run_to_idle()
    assert [event.id for event in bench.of(RequestFinished)] == ["c", "b", "runs"]
