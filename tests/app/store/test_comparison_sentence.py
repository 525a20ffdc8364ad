"""A comparison in one sentence: gain, cost and how sure, and never a word that no interval gives."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from app.cli.comparison_text import LATENCIES
from app.store.comparison_sentence import GOODPUT, LABELS, TPOT, sentence

DUE, TTFT, QUEUE = "percentiles.client.ttft_due_ms.p95", "percentiles.client.ttft_ms.p95", "percentiles.server.queue_ms.p95"
PAGE = Path(__file__).parents[3] / "static" / "js" / "panels" / "compare_tables.js"


def row(
    name: str, base: float | None, value: float | None, word: str | None, n: tuple[int, int] = (400, 700)
) -> dict[str, Any]:
    known = base is not None and value is not None
    difference = value - base if known else None
    better = "higher" if name.startswith("goodput") else "lower"
    relative = difference / base if known and base else None
    return {
        "name": name, "values": [base, value], "difference": [0.0, difference], "relative": [0.0, relative],
        "reading": [None, word], "better": better, "n": list(n),
    }  # fmt: skip


def test_gain_before_cost_each_with_how_sure() -> None:
    rows = [row(TTFT, 10_000, 300, "better"), row(GOODPUT, 1, 5, "better"), row(TPOT, 50, 54, "unclear")]
    assert (
        sentence(rows)
        == "B is better: TTFT p95 −97 %, goodput ×5 (each sure within these two runs); TPOT p50 +8 % (may be chance)"
    )


def test_a_trade_names_what_got_worse_and_what_got_better_for_it() -> None:
    rows = [row(TTFT, 100, 50, "better"), row(GOODPUT, 4, 3, "worse"), row(TPOT, 50, 40, "unclear")]
    assert sentence(rows) == (
        "B trades goodput (worse) for TTFT p95 (better): TTFT p95 −50 % (sure within these two runs), "
        "TPOT p50 −20 % (may be chance); goodput −25 % (sure within these two runs)"
    )


@pytest.mark.parametrize(
    ("goodput", "said"), [(4.02, "B is worse: TTFT p95 +46 % (sure within these two runs)"), (5, "B trades TTFT p95")]
)
def test_what_is_too_small_to_be_named_makes_no_trade(goodput: float, said: str) -> None:
    found = sentence([row(TTFT, 100, 146, "worse"), row(GOODPUT, 4, goodput, "better")])
    assert found is not None and found.startswith(said)


def test_a_sure_change_that_is_too_small_to_be_named_is_no_verdict() -> None:
    assert sentence([row(TTFT, 1000, 1004, "worse"), row(TPOT, 50, 50, "unclear")]) == "B differs from A by less than 1 %"


def test_a_figure_that_is_not_sure_gives_no_verdict_however_large() -> None:
    assert sentence([row(TTFT, 100, 10, "unclear")]) == "B may be no other than A: TTFT p95 −90 % (may be chance)"
    few = sentence([row(TTFT, 100, 10, "too_few", (99, 700))])
    assert few == "too few answers to tell B from A: TTFT p95 −90 % (too few answers to be sure)"


def test_a_loss_alone_is_said_and_what_hardly_changed_is_not() -> None:
    rows = [row(TTFT, 100, 180, "worse"), row(GOODPUT, 4, 4.01, "unclear")]
    assert sentence(rows) == "B is worse: TTFT p95 +80 % (sure within these two runs)"


def test_an_open_loop_counts_from_when_a_request_was_due_and_nothing_defined_says_nothing() -> None:
    rows = [row(DUE, 100, 50, "better"), row(TTFT, 100, 200, "worse")]
    assert sentence(rows) == "B is better: TTFT from due p95 −50 % (sure within these two runs)"
    assert sentence([row(DUE, None, 50, None)]) is None
    assert sentence([row(GOODPUT, 0, 2, "better")]) == "B is better: goodput from 0 to 2 (sure within these two runs)"


@pytest.mark.parametrize("n", [(18, 716), (382, 18)])
def test_a_ttft_of_too_few_gives_way_to_the_one_that_has_enough(n: tuple[int, int]) -> None:
    few, many = row(DUE, 100, 34, "too_few", n), row(TTFT, 100, 35, "better", (382, 716))
    assert sentence([few, many]) == "B is better: TTFT p95 −65 % (sure within these two runs)"
    neither = [few, many | {"n": [3, 4], "reading": [None, "too_few"]}, row(QUEUE, 9, 3, "better")]
    assert sentence(neither) == "too few answers to tell B from A: TTFT from due p95 −66 % (too few answers to be sure)"


def test_every_latency_has_its_name_in_the_tables() -> None:
    shown = dict(re.findall(r'^  \["((?:client|server)\.\w+)", "([^"]+)", ', PAGE.read_text("utf-8"), re.M))
    assert {name: label.lower() for name, label in shown.items()} == {name: label.lower() for name, label in LABELS.items()}
    assert LATENCIES == LABELS


def test_where_the_host_was_late_the_sentence_says_whose() -> None:
    rows = [row(TTFT, 100, 180, "worse"), row(TPOT, 50, 54, "unclear")]
    assert sentence(rows, host_limited={1}) == (
        "B is worse: TTFT p95 +80 % (sure within these two runs; the host limited B), TPOT p50 +8 % (may be chance)"
    )
    assert sentence(rows[:1], host_limited={0, 1}, within="this one run") == (
        "B is worse: TTFT p95 +80 % (sure within this one run; the host limited A and B)"
    )


def test_a_repeat_is_judged_in_nothing_and_shows_how_far_repeats_differ() -> None:
    rows = [row(TTFT, 100, 146, None), row(TPOT, 50, 20, None), row(GOODPUT, 4, 5, None), row(DUE, 1, 9, None, (18, 18))]
    rows.append(row(QUEUE, 0.1, 7, None))  # no client's figure, and large for being small
    said = "A and B are repeats of one run: this is how far repeats differ, most in TPOT p50 (−60 %)"
    assert sentence(rows, repeats={1}) == said
    assert sentence(rows, repeats={1}, host_limited={1}) == f"{said}; the host limited B"
    assert sentence(rows[3:4], repeats={1}) == (
        "A and B are repeats of one run: this is how far repeats differ, most in TTFT from due p95 (×9, of few answers)"
    )
    assert sentence(rows[4:], repeats={1}) == (
        "A and B are repeats of one run: this is how far repeats differ, most in queue p95 (×70)"
    )


def test_repeats_that_came_out_the_same_or_without_a_figure_are_still_said_to_be_repeats() -> None:
    same = sentence([row(TTFT, 100, 100, None)], repeats={1})
    assert same == "A and B are repeats of one run, and do not differ in latency or goodput"
    assert sentence([row(TTFT, None, None, None)], repeats={1}) == "A and B are repeats of one run"
