"""Figure: each rule lets pass what it must, and nothing more."""

from __future__ import annotations

import math

import pytest

from scheduler.experiments.figure import Figure, at_least, at_most, exactly, within


@pytest.mark.parametrize(
    ("figure", "holds"),
    [
        (within("x", 104.9, 100.0, 0.05, "s"), True),
        (within("x", 105.1, 100.0, 0.05, "s"), False),
        (within("x", 94.9, 100.0, 0.05, "s"), False),
        (within("x", -104.0, -100.0, 0.05, "s"), True),
        (at_most("x", 3.0, 3.0, "s"), True),
        (at_most("x", 3.1, 3.0, "s"), False),
        (at_least("x", 3.0, 3.0, "s"), True),
        (at_least("x", 2.9, 3.0, "s"), False),
        (exactly("x", 0, 0, "s"), True),
        (exactly("x", 1, 0, "s"), False),
    ],
)
def test_rule_holds_or_not(figure: Figure, holds: bool) -> None:
    assert figure.holds is holds


def test_what_is_no_number_holds_never() -> None:
    for figure in (within("x", math.nan, 1, 9, "s"), at_most("x", math.nan, 1, "s"), at_least("x", math.nan, 1, "s")):
        assert not figure.holds
