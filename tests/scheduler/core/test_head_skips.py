"""Who stands aside, until when, and how often it is passed."""

from __future__ import annotations

import pytest
from builders import make_request

from scheduler.core.head_skips import ASIDE, HeadSkips
from scheduler.core.request import Request, WaitReason


def parked(number: int = 1) -> Request:
    request = make_request()
    request.number, request.parked = number, WaitReason.KV_BLOCKS
    return request


@pytest.fixture
def skips() -> HeadSkips:
    made = HeadSkips()
    made.limit(2)
    return made


def test_nobody_may_be_passed_unless_a_bound_is_set() -> None:
    assert not HeadSkips().may_pass(make_request())


def test_whoever_stands_aside_is_looked_at_again_once_enough_is_free_or_nothing_runs(skips: HeadSkips) -> None:
    large, small = parked(1), parked(2)
    skips.put(large, 16)
    skips.put(small, 4)
    assert skips.ready(3, idle=False) == [] and skips
    assert skips.ready(4, idle=False) == [small] and skips.ready(15, idle=False) == []
    assert skips.ready(0, idle=True) == [large] and not skips


def test_request_is_passed_at_most_so_often_in_all(skips: HeadSkips) -> None:
    head = parked()
    skips.put(head, 16)
    assert skips.passed() == []
    assert skips.ready(16, idle=False) == [head] and skips.may_pass(head)
    skips.put(head, 16)
    assert skips.passed() == [head] and not skips and not skips.may_pass(head)


def test_at_most_so_many_stand_aside_at_once_and_those_that_ended_make_room(skips: HeadSkips) -> None:
    heads = [parked(n) for n in range(ASIDE)]
    for head in heads:
        skips.put(head, 16)
    assert not skips.may_pass(make_request())
    heads[3].parked = None
    assert skips.may_pass(make_request()) and len(skips.aside) == ASIDE - 1


def test_whoever_ended_while_it_stood_aside_is_dropped(skips: HeadSkips) -> None:
    gone, also_gone, there = parked(1), parked(2), parked(3)
    for head in (gone, there):
        skips.put(head, 16)
    gone.parked = None
    assert skips.ready(16, idle=False) == [there]
    skips.put(also_gone, 16)
    also_gone.parked = None
    assert skips.passed() == [] and not skips


def test_new_bound_lets_all_be_looked_at_again(skips: HeadSkips) -> None:
    head = parked()
    skips.put(head, 1000)
    skips.limit(0)
    assert skips.ready(0, idle=False) == [head] and not skips.may_pass(head)


def test_request_stands_aside_once(skips: HeadSkips) -> None:
    head = parked()
    skips.put(head, 5)
    skips.put(head, 9)
    assert skips.aside == [(9, head)]
