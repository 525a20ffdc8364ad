"""Every experiment of the literature at its quick size: each figure is as its source says. Full sizes are in benchmarks/."""

from __future__ import annotations

import pytest

from scheduler.experiments.figure import Part
from scheduler.experiments.shelf import EXPERIMENTS

PARTS = [(f"{name}: {part.title}", part) for name, each in EXPERIMENTS.items() for part in each.parts]


@pytest.mark.parametrize("part", [part for _, part in PARTS], ids=[title for title, _ in PARTS])
def test_every_figure_is_as_its_source_says(part: Part) -> None:
    figures = part.figures()
    assert figures, "an experiment without figures shows nothing"
    assert [figure for figure in figures if not figure.holds] == []


def test_what_the_issue_asks_for_is_there() -> None:
    assert {"vtc", "sarathi", "edf", "srtf", "aging", "shed"} <= set(EXPERIMENTS)
    for each in EXPERIMENTS.values():
        assert each.says.endswith(".") and each.source and each.parts
