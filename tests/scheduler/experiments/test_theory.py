"""The closed forms agree with one another where they must, and with figures worked out by hand."""

from __future__ import annotations

import pytest

from scheduler.experiments.theory import lindley, response_srpt, wait_fcfs, waits_by_class


def test_md1_at_half_load_waits_half_a_service_time() -> None:
    assert wait_fcfs(1.0, 0.5, 0.25) == pytest.approx(0.25)


def test_one_class_is_first_come_first_served() -> None:
    assert waits_by_class([(1.0, 0.5)]) == pytest.approx([wait_fcfs(1.0, 0.5, 0.25)])


def test_classes_keep_the_weighted_sum_of_waits() -> None:
    table = [(0.6, 0.4), (0.8, 0.6)]
    rate, load = 1.4, 0.72
    mixed = wait_fcfs(rate, load / rate, (0.6 * 0.16 + 0.8 * 0.36) / rate)
    waits = waits_by_class(table)
    assert waits == pytest.approx([0.25263, 0.90226], abs=1e-5)
    assert sum(r * s * w for (r, s), w in zip(table, waits, strict=True)) == pytest.approx(load * mixed)


def test_srpt_with_nearly_equal_sizes_is_first_come_first_served() -> None:
    alike = response_srpt(1.0, 0.5, 0.5 + 1e-9, 0.0)
    assert alike == pytest.approx(0.5 + wait_fcfs(1.0, 0.5, 0.25), abs=1e-6)
    assert response_srpt(0.8 / 0.58, 0.2, 4.0, 0.9) == pytest.approx(1.489, abs=1e-3)


def test_lindley_by_hand() -> None:
    assert lindley([0, 1, 5, 30], [10, 10, 2, 1]) == [0, 9, 15, 0]
