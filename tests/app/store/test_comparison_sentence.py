"""A comparison in one sentence: gain, cost and how sure, and never a word that no interval gives."""

from __future__ import annotations

from typing import Any

from app.store.comparison_sentence import GOODPUT, TPOT, sentence

TTFT = "percentiles.client.ttft_ms.p95"


def row(name: str, base: float | None, value: float | None, word: str | None) -> dict[str, Any]:
    known = base is not None and value is not None
    difference = value - base if known else None
    better = "higher" if name.startswith("goodput") else "lower"
    relative = difference / base if known and base else None
    return {
        "name": name, "values": [base, value], "difference": [0.0, difference], "relative": [0.0, relative],
        "reading": [None, word], "better": better,
    }  # fmt: skip


def test_gain_before_cost_each_with_how_sure() -> None:
    rows = [row(TTFT, 10_000, 300, "better"), row(GOODPUT[0], 1, 5, "better"), row(TPOT[0], 50, 54, "unclear")]
    assert sentence(rows) == "B is better: TTFT p95 −97 % (sure), goodput ×5 (sure); TPOT p50 +8 % (may be chance)"


def test_a_sure_gain_and_a_sure_loss_that_users_feel_are_a_trade() -> None:
    rows = [row(TTFT, 100, 50, "better"), row(GOODPUT[0], 4, 3, "worse")]
    assert sentence(rows) == "B trades one for the other: TTFT p95 −50 % (sure); goodput −25 % (sure)"


def test_a_figure_that_is_not_sure_gives_no_verdict_however_large() -> None:
    assert sentence([row(TTFT, 100, 10, "unclear")]) == "B may be no other than A: TTFT p95 −90 % (may be chance)"
    few = sentence([row(TTFT, 100, 10, "too_few")])
    assert few == "too few answers to tell B from A: TTFT p95 −90 % (too few answers to be sure)"


def test_a_loss_alone_is_said_and_what_hardly_changed_is_not() -> None:
    rows = [row(TTFT, 100, 180, "worse"), row(GOODPUT[0], 4, 4.01, "unclear")]
    assert sentence(rows) == "B is worse: TTFT p95 +80 % (sure)"


def test_an_open_loop_counts_from_when_a_request_was_due_and_nothing_defined_says_nothing() -> None:
    due = "percentiles.client.ttft_due_ms.p95"
    assert sentence([row(due, 100, 50, "better"), row(TTFT, 100, 200, "worse")]) == "B is better: TTFT p95 −50 % (sure)"
    assert sentence([row(due, None, 50, None)]) is None
    assert sentence([row(GOODPUT[0], 0, 2, "better")]) == "B is better: goodput from 0 to 2 (sure)"
