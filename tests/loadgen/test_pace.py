"""A rate that is changed on the way: what came before stays, what comes after is denser, in every process alike."""

import math
from itertools import count, takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.curve import Listed, Rates, read_points
from loadgen.pace import Pace, users_at

SHAPE = Rates(read_points("0:2 10:8 20:8 20:1 60:1"))
factors = st.sampled_from([0.1, 0.5, 1.0, 2.0, 3.5, 10.0])
changes = st.lists(st.tuples(st.floats(0, 50), factors), max_size=4).map(sorted)


def paced(told: list[tuple[float, float]]) -> Pace:
    pace = Pace(SHAPE)
    for at_s, factor in told:
        pace.change(at_s, factor)
    return pace


def arrivals(pace: Pace, until: float) -> list[float]:
    return list(takewhile(lambda due: due < until, (pace.instant(float(k)) for k in count())))


@given(changes, st.floats(0, 50), factors)
def test_a_change_moves_nothing_that_was_due_before_it(told: list[tuple[float, float]], later: float, factor: float) -> None:
    at_s = max([later, *(at for at, _ in told)])
    before, after = paced(told), paced([*told, (at_s, factor)])
    early = arrivals(before, at_s)
    assert arrivals(after, at_s) == pytest.approx(early, abs=1e-9)


@given(changes, st.floats(50, 60))
def test_arrivals_are_the_integral_of_the_rate_times_the_factor_in_force(told: list[tuple[float, float]], until: float) -> None:
    edges = [0.0, *(at for at, _ in told), until]
    in_force = [1.0, *(factor for _, factor in told)]
    pieces = zip(edges, edges[1:], in_force, strict=False)
    expected = sum(factor * (SHAPE.mass(b) - SHAPE.mass(a)) for a, b, factor in pieces)
    assert len(arrivals(paced(told), until)) == pytest.approx(expected, abs=1.01)


def test_a_change_before_a_stream_begins_holds_from_its_start() -> None:
    assert arrivals(paced([(-3.0, 2.0)]), 5.0) == pytest.approx(arrivals(paced([(0.0, 2.0)]), 5.0))


def test_a_list_at_twice_the_rate_has_two_at_each_instant_that_is_left() -> None:
    pace = Pace(Listed((1.0, 2.0, 3.0)))
    pace.change(1.5, 2.0)
    assert [pace.instant(k) for k in range(6)] == [1.0, 2.0, 2.0, 3.0, 3.0, math.inf]
    assert not pace.over(2.5) and pace.over(3.01)


def test_a_silence_is_not_the_end_but_a_last_rate_of_zero_is() -> None:
    silent, ended = Pace(Rates(read_points("0:1 5:1 5:0 9:0 9:1"))), Pace(Rates(read_points("0:1 5:0")))
    assert not silent.over(7) and not ended.over(4.9) and ended.over(5)


def test_users_are_rounded_and_never_none() -> None:
    assert [users_at(8, factor) for factor in (0.1, 0.5, 1.0, 1.5, 10.0)] == [1, 4, 8, 12, 80] and users_at(2, 0.1) == 1
