"""What an interval says in a word: never more than it holds, never of too few."""

from __future__ import annotations

import pytest

from app.store.comparison_reading import ENOUGH, reading

TIME, SHARE = "percentiles.client.ttft_ms.p95", "goodput.attainment"


@pytest.mark.parametrize(
    ("name", "bounds", "word"),
    [
        (TIME, (-5.0, -1.0), "better"),
        (TIME, (1.0, 5.0), "worse"),
        (TIME, (-1.0, 5.0), "unclear"),
        (TIME, (0.0, 5.0), "unclear"),
        (SHARE, (0.1, 0.2), "better"),
        (SHARE, (-0.2, -0.1), "worse"),
        (TIME, None, None),
    ],
)
def test_the_word_is_about_the_side_on_which_the_whole_interval_lies(
    name: str, bounds: tuple[float, float] | None, word: str | None
) -> None:
    found = reading(name, [ENOUGH, ENOUGH], [None, bounds])
    assert found["reading"] == [None, word]


@pytest.mark.parametrize("n", [[ENOUGH - 1, 10_000], [10_000, ENOUGH - 1], [None, 10_000]])
def test_of_too_few_on_either_side_nothing_is_read(n: list[int | None]) -> None:
    assert reading(TIME, n, [None, (-5.0, -1.0)])["reading"] == [None, "too_few"]


def test_a_run_that_is_the_base_again_is_read_in_nothing_and_the_others_are() -> None:
    bounds = (-5.0, -1.0)
    assert reading(TIME, [ENOUGH] * 3, [None, bounds, bounds], {1})["reading"] == [None, None, "better"]


def test_less_time_and_more_good_answers_are_better() -> None:
    assert [reading(name, [1], [None])["better"] for name in (TIME, SHARE)] == ["lower", "higher"]
