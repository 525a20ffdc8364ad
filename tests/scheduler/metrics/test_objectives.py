"""Objectives: with and without the refused, and the fluidity index token by token."""

from __future__ import annotations

import pytest
from builders import Bench, make_request, make_scheduler
from hypothesis import given
from hypothesis import strategies as st

from scheduler import metrics
from scheduler.metrics import fluidity

times = st.integers(0, 50)


def test_the_refused_count_as_missed_unless_left_out() -> None:
    bench = Bench(make_scheduler(max_num_queued_reqs=2, max_num_seqs=1))
    bench.add(*(make_request(f"r{i}") for i in range(5)))
    bench.run_to_idle()
    lives = list(metrics.lives(bench.events).values())
    refused = sum(life.reason is metrics.FinishReason.REJECTED for life in lives)
    assert 0 < refused < 5
    assert metrics.attainment(lives, 1e9, 1e9) == (5 - refused) / 5
    assert metrics.attainment(lives, 1e9, 1e9, refused=False) == 1.0


@pytest.mark.parametrize(
    ("first", "gaps", "index"),
    [
        (10, [5, 5, 5], 1.0),
        (11, [5, 5, 5], 0.75),  # the first was late, the rest are due from then on
        (2, [9, 5, 5], 1.0),  # what came early pays for what came late
        (2, [14, 5, 5], 0.75),
        (10, [6, 5, 5], 0.75),
        (10, [6, 6, 4], 0.5),  # late, late, early
        (10, [], 1.0),
        (10.5, [], 0.0),
    ],
)
def test_tokens_are_due_one_after_the_other_from_the_last_miss(first: float, gaps: list[float], index: float) -> None:
    assert fluidity(first, gaps, prefill=10, decode=5) == index


@given(times, st.lists(times, max_size=20), times, times)
def test_the_index_is_that_of_deadlines_kept_one_by_one(first: int, gaps: list[int], prefill: int, decode: int) -> None:
    at, due, met = first, prefill, 0
    for gap in [*gaps, 0]:
        met += at <= due
        due = (due if at <= due else at) + decode
        at += gap
    assert fluidity(first, gaps, prefill, decode) == 1 - (len(gaps) + 1 - met) / (len(gaps) + 1)


def test_normalised_latency_is_e2e_over_output_tokens() -> None:
    bench = Bench(make_scheduler())
    bench.add(make_request("r", max_tokens=4))
    life = metrics.lives(bench.run_to_idle())[1, "r"]
    assert life.e2e is not None and life.normalised == life.e2e / 4
    life.reason = metrics.FinishReason.ABORT
    assert life.normalised is None
