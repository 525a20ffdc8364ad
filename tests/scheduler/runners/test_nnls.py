"""Least squares without negative coefficients: against what must hold at the least, whatever the data."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.runners.nnls import nnls

VALUES = st.floats(-3, 3).map(lambda value: round(value, 3))


def dense(rows: list[list[float]], target: list[float]) -> list[float]:
    return nnls([(list(enumerate(row)), value) for row, value in zip(rows, target, strict=True)], len(rows[0]))


def slopes(rows: list[list[float]], target: list[float], x: list[float]) -> list[float]:
    """How the squared error falls as each coefficient grows."""
    left = [value - sum(a * b for a, b in zip(row, x, strict=True)) for row, value in zip(rows, target, strict=True)]
    return [sum(row[i] * value for row, value in zip(rows, left, strict=True)) for i in range(len(x))]


def test_what_was_made_without_noise_is_found() -> None:
    rows = [[1.0, float(i), float(i * i % 7)] for i in range(12)]
    target = [2.0 + 0.5 * row[1] + 3.0 * row[2] for row in rows]
    assert dense(rows, target) == pytest.approx([2.0, 0.5, 3.0])


def test_a_coefficient_that_would_be_negative_is_nothing() -> None:
    rows = [[1.0, float(i)] for i in range(10)]
    assert dense(rows, [5.0 - 0.1 * row[1] for row in rows]) == pytest.approx([4.55, 0.0])


def test_two_columns_that_say_the_same_say_it_once() -> None:
    x = dense([[1.0, 1.0], [2.0, 2.0]], [3.0, 6.0])
    assert sum(x) == pytest.approx(3.0) and min(x) >= 0


def test_a_column_of_nothing_gets_nothing() -> None:
    assert nnls([([(0, 1.0)], 2.0)], 3) == pytest.approx([2.0, 0.0, 0.0])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.lists(VALUES, min_size=4, max_size=4), VALUES), min_size=4, max_size=12))
def test_at_the_least_nothing_can_be_gained(data: list[tuple[list[float], float]]) -> None:
    """Karush-Kuhn-Tucker: no slope leads up, and what is not nothing has no slope."""
    rows, target = [row for row, _ in data], [value for _, value in data]
    x = dense(rows, target)
    size = 1e-5 * max(1.0, *(abs(value) for row in rows for value in row)) ** 2 * len(rows)
    for value, slope in zip(x, slopes(rows, target, x), strict=True):
        assert value >= 0 and slope <= size
        assert value == 0 or abs(slope) <= size * max(1.0, value)
