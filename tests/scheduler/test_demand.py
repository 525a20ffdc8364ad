"""Asks into requests: who shares a prefix with whom, and users who wait for their answers."""

from __future__ import annotations

from array import array
from itertools import repeat, takewhile

from scheduler.core.events import Parts, RequestFinished
from scheduler.core.request import NO_WAITS, FinishReason
from scheduler.demand import AFTER_REFUSAL_NS, MS, SECOND, Ask, Asked, Requests, Together, Users, prompt_ids
from scheduler.simulate import Trace

ASK = Ask(0, 32, 4)


def shared(one: array[int], other: array[int]) -> int:
    """How many tokens two prompts begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def ended(id: str, at: int, reason: FinishReason = FinishReason.LENGTH) -> RequestFinished:
    return RequestFinished(1, 9, at, 1, id, 0, reason, None, 32, 0, 4, 0, Parts(NO_WAITS, 0, 0, 0, 0))


def users(n: int, **changes: float) -> Users:
    rates = {"spawn_rate": 10.0, "think_s": 0.5} | changes
    return Users(repeat(ASK), Requests("run"), n, **rates, start=0, stop=10 * SECOND)


def test_prompts_share_the_stretches_that_both_name_and_no_token_more() -> None:
    assert shared(prompt_ids(1, 1100, [(7, 512), (8, 512)]), prompt_ids(2, 1100, [(7, 512), (9, 512)])) == 512
    assert shared(prompt_ids(1, 1100, [(7, 512), (8, 512)]), prompt_ids(2, 1100, [(7, 512), (8, 512)])) == 1024


def test_equal_stretches_after_different_ones_are_no_prefix() -> None:
    assert shared(prompt_ids(1, 1024, [(1, 512), (3, 512)]), prompt_ids(2, 1024, [(2, 512), (3, 512)])) == 0


def test_prompts_that_name_nothing_share_nothing() -> None:
    assert shared(prompt_ids(1, 512), prompt_ids(2, 512)) == 0


def test_a_prompt_is_as_long_as_asked_even_if_its_stretches_are_longer() -> None:
    assert len(prompt_ids(1, 700, [(1, 512), (2, 512)])) == 700
    assert prompt_ids(1, 700, [(1, 512), (2, 512)]) == prompt_ids(2, 700, [(1, 512), (2, 512)])


def test_a_request_is_what_was_asked_and_somebody_hears_of_it() -> None:
    heard: list[Asked] = []
    made = Requests("run_a", 60_000, heard.append)
    ask = Ask(5 * MS, 32, 4, tenant="t", kind="batch", priority=-2, deadline_ms=1.5, expected_output_tokens=9)
    request = next(made.all_of([ask]))
    assert (request.id, request.run, request.received_at) == ("run_a-0", "run_a", 5 * MS)
    assert (request.tenant, request.kind, request.priority, request.expected_output_tokens) == ("t", "batch", -2, 9)
    assert (request.prompt_tokens, request.params.max_tokens, request.params.ignore_eos) == (32, 4, True)
    assert (request.deadline_at, request.timeout_at) == (5 * MS + 1_500_000, 5 * MS + 60_000 * MS)
    assert heard == [Asked("run_a-0", 5 * MS, ask, due=True)]


def test_users_come_one_after_the_other_and_then_ask_when_they_are_answered() -> None:
    loop = users(2)
    first, second = loop.take(), loop.take()
    assert (first.received_at, second.received_at) == (0, SECOND // 10)
    assert loop.next_at() is None, "both wait for their answers"
    loop.finished(ended(second.id, 3 * SECOND))
    assert loop.next_at() == 3 * SECOND + SECOND // 2
    loop.finished(ended("somebody else", 4 * SECOND))
    assert loop.take().received_at == 3 * SECOND + SECOND // 2 and loop.next_at() is None


def test_a_user_who_is_turned_away_does_not_ask_again_at_once() -> None:
    loop = users(1, think_s=0.0)
    loop.finished(ended(loop.take().id, SECOND, FinishReason.REJECTED))
    assert loop.next_at() == SECOND + AFTER_REFUSAL_NS


def test_nobody_asks_once_the_stream_is_over() -> None:
    loop = users(1)
    loop.finished(ended(loop.take().id, 10 * SECOND - SECOND // 2))
    assert loop.next_at() is None


def test_sources_together_come_in_order_and_each_hears_of_its_own_end() -> None:
    made = Requests("run")
    trace = Trace(made.all_of([Ask(SECOND // 20, 8, 1), Ask(SECOND, 8, 1)]))
    loop = Users(repeat(ASK), made, 2, spawn_rate=10, think_s=0, start=0, stop=10 * SECOND)
    both = Together([trace, loop])
    taken = [both.take() for _ in range(4)]
    assert [request.received_at for request in taken] == [0, SECOND // 20, SECOND // 10, SECOND]
    assert both.next_at() is None
    both.finished(ended(taken[0].id, 2 * SECOND))
    assert both.next_at() == 2 * SECOND
