"""A report as text: what rests on few values says so."""

from __future__ import annotations

from app.cli.report_text import report_text


def test_percentiles_of_too_few_are_in_parentheses() -> None:
    figures = {"p50": 10.0, "p90": 20.0, "p95": 30.0, "p99": 40.0, "n": 12, "few": ["p95", "p99"]}
    counts = dict.fromkeys(("sent", "ok", "failed", "refused", "cancelled", "incomplete"), 0)
    goodput = {"slo": {"ttft_ms": 1000.0}, "per_s": None, "attainment": None}
    text = report_text(
        {"headline": "valid: it held", "percentiles": {"ttft_ms": figures}, "reconciliation": counts, "goodput": goodput}
    )
    assert text.startswith("valid: it held\n") and "(30)" in text and "(20)" not in text


def test_code_has_no_backticks_and_a_reason_that_the_first_line_lacks_is_the_second() -> None:
    counts = dict.fromkeys(("sent", "ok", "failed", "refused", "cancelled", "incomplete"), 0)
    goodput = {"slo": {"ttft_ms": 1000.0}, "per_s": None, "attainment": None}
    said = {"headline": "slots; host limited: 2 % late; `batchscope simulate --run r`", "verdict": "host_limited"}
    text = report_text(
        said | {"verdict_reason": "9 % ended late", "percentiles": {}, "reconciliation": counts, "goodput": goodput}
    )
    assert text.startswith("slots; host limited: 2 % late; batchscope simulate --run r\n9 % ended late\n")
