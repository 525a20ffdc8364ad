"""Curves of a rate: the mass is the integral of what is written, `instant` its inverse, and a wrong point is named."""

import math
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.curve import MOST_POINTS, Listed, Points, Rates, read_points

seconds = st.floats(0, 1000, allow_subnormal=False)
rates = st.floats(0.125, 100)


@st.composite
def shapes(draw: st.DrawFn) -> Points:
    times = [0.0, *sorted(draw(st.lists(st.integers(0, 60), max_size=8, unique=True)))]
    return tuple((float(t), draw(rates)) for t in times)


def rate_at(points: Points, t: float) -> float:
    """As the glossary has it: linear between points, the last rate stays."""
    for (t0, r0), (t1, r1) in pairwise(points):
        if t0 <= t < t1:
            return r0 + (r1 - r0) * (t - t0) / (t1 - t0)
    return points[-1][1]


def integral(points: Points, until: float, steps: int = 4000) -> float:
    """By midpoints, which are exact where a line has no bend inside a step."""
    width = until / steps
    return sum(rate_at(points, (i + 0.5) * width) for i in range(steps)) * width


@given(shapes(), st.floats(0.5, 90))
def test_the_mass_up_to_an_instant_is_the_integral_of_the_rate(points: Points, until: float) -> None:
    assert Rates(points).mass(until) == pytest.approx(integral(points, until, 400), rel=0.02, abs=0.5)


@given(shapes(), seconds)
def test_an_instant_is_where_the_mass_has_come(points: Points, mass: float) -> None:
    along = Rates(points)
    assert along.mass(along.instant(mass)) == pytest.approx(mass, rel=1e-9, abs=1e-9)


@given(shapes(), st.lists(seconds, min_size=2, max_size=6))
def test_a_mass_never_falls_nor_an_instant(points: Points, at: list[float]) -> None:
    along = Rates(points)
    for ordered in ([along.mass(t) for t in sorted(at)], [along.instant(mass) for mass in sorted(at)]):
        assert all(a <= b * (1 + 1e-12) for a, b in pairwise(ordered))


@given(shapes(), st.integers(0, 5), st.floats(0.01, 0.99))
def test_a_period_repeats_the_curve(points: Points, rounds: int, share: float) -> None:
    once, period = Rates(points), points[-1][0] + 5.0
    again = Rates([*points, (period, points[-1][1])], period)
    assert again.mass((rounds + share) * period) == pytest.approx(rounds * once.mass(period) + once.mass(share * period))


def test_a_ramp_has_the_area_of_its_trapezium_and_a_silence_lasts() -> None:
    ramp = Rates(read_points("0:1 20:8 40:8 60:1"))
    assert [ramp.mass(t) for t in (0, 20, 40, 60, 70)] == [0, 90, 250, 340, 350]
    silent = Rates(read_points("0:2 5:2 5:0 10:0 10:4"))
    assert silent.mass(10) == 10 and silent.instant(10) == 10 and silent.instant(14) == 11
    ended = Rates(read_points("0:2 5:0"))
    assert ended.instant(5) == math.inf and ended.instant(4.99) < 5


def test_a_list_is_one_arrival_at_each_instant() -> None:
    listed = Listed((0.5, 0.5, 2.0))
    assert [listed.instant(k) for k in range(4)] == [0.5, 0.5, 2.0, math.inf]
    assert [listed.mass(t) for t in (0.5, 0.6, 3)] == [0, 2, 3]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "1 to 100 points"),
        ("0:1 20-8", r"point 2, '20-8', is not SECONDS:RATE"),
        ("0:1 20:-8", r"point 2, .* is not"),
        ("0:nan", "point 1, .* is not"),
        ("0:1e3", "point 1, .* is not"),
        ("5:1 20:8", "point 1, '5:1', must be at 0 s"),
        ("0:1 20:8 10:2", r"point 3, '10:2', is earlier than the one before it, at 20 s"),
        ("0:1 5:2 5:3 5:4", "point 4, '5:4', is the third at its instant"),
        ("0:1 5:10001", "point 2, '5:10001', is beyond"),
        ("0:1 604801:1", "point 2, .* is beyond"),
        ("0:0 9:0", "brings nobody"),
        (" ".join(["0:1"] + [f"{n}:1" for n in range(1, MOST_POINTS + 1)]), "1 to 100 points"),
    ],
)
def test_what_is_no_shape_is_refused_by_its_point(text: str, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        read_points(text)
    assert re.search(said, str(caught.value)), caught.value


@given(shapes())
def test_a_shape_that_is_written_is_read_as_it_was(points: Points) -> None:
    exact = tuple((t, round(rate, 3)) for t, rate in points if points.count((t, rate)) == 1)
    assert read_points(" ".join(f"{t:g}:{rate:.3f}" for t, rate in exact)) == exact if exact and exact[0][0] == 0 else True
