"""The client's own report: exact percentiles, undefined left out, failures apart, goodput over all that were due."""

import random
from typing import Any

import numpy
import pytest

from loadgen.report import percentile, reconcile, report, summary, tpot

SLO = {"ttft_ms": 100.0, "tpot_ms": 10.0}


def row(status: str = "ok", **changes: Any) -> dict[str, Any]:
    return {
        "id": "r-0", "n": 0, "tenant": "a", "kind": "k", "due_ms": None, "sent_ms": 0.0, "first_ms": 50.0, "last_ms": 86.0,
        "end_ms": 90.0, "status": status, "http": 200, "error": None, "prompt_tokens": 9, "output_tokens": 5,
        "estimated": False, "gaps_ms": [9.0, 9.0, 9.0, 9.0], "server_id": None, "attempts": 1,
    } | changes  # fmt: skip


def failed(n: int = 0) -> dict[str, Any]:
    return row("http_error", http=500, error="no", first_ms=None, last_ms=None, output_tokens=None, gaps_ms=[], end_ms=9e6 + n)


def test_percentiles_are_numpys() -> None:
    rng = random.Random(1)
    for n in (1, 2, 3, 10, 101, 1000):
        values = sorted(rng.lognormvariate(3, 1) for _ in range(n))
        for q in (0.0, 0.5, 0.9, 0.95, 0.99, 1.0):
            assert percentile(values, q) == pytest.approx(float(numpy.percentile(values, q * 100)))
    assert percentile([10.0, 20.0], 0.5) == 15.0
    assert percentile([], 0.5) is None


def test_undefined_values_are_no_zeros() -> None:
    hundred = [float(i) for i in range(100)]
    assert summary([*hundred, *[None] * 100]) == summary(hundred)


def test_percentiles_that_n_is_too_small_for_are_named() -> None:
    assert summary([1.0] * 9)["thin"] == ["p90", "p95", "p99"]
    assert summary([1.0] * 10)["thin"] == ["p95", "p99"]
    assert summary([1.0] * 100)["thin"] == []


def test_failures_change_no_percentile() -> None:  # B13
    good = [row(first_ms=float(40 + i)) for i in range(30)]
    alone, mixed = report(good, SLO), report([*good, *(failed(n) for n in range(50))], SLO)
    assert mixed["percentiles"] == alone["percentiles"] and mixed["by_kind"] == alone["by_kind"]
    assert mixed["reconciliation"]["failed"] == 50 and mixed["error_e2e_ms"]["n"] == 50


def test_a_run_of_failures_alone_has_a_whole_report() -> None:  # B15
    figures = report([failed() for _ in range(5)], SLO)
    assert figures["reconciliation"] == {"sent": 5, "ok": 0, "failed": 5, "refused": 0, "cancelled": 0, "incomplete": 0}
    assert figures["percentiles"]["ttft_ms"]["p50"] is None and figures["percentiles"]["ttft_ms"]["n"] == 0
    assert figures["goodput"]["attainment"] == 0.0
    assert figures["errors"] == [{"status": "http_error", "http": 500, "error": "no", "count": 5}]


def test_a_run_of_nothing_has_a_report_too() -> None:
    figures = report([], SLO)
    assert figures["goodput"]["attainment"] is None and figures["percentiles"]["tpot_ms"]["mean"] is None


def test_several_tokens_an_event_are_divided_out_and_make_no_itl() -> None:  # B3
    many = row(first_ms=100.0, last_ms=400.0, output_tokens=20, gaps_ms=[100.0] * 3, first_tokens=5)
    assert tpot(many) == 20.0
    figures = report([many], SLO)["percentiles"]
    assert figures["icl_ms"]["p50"] == 100.0 and figures["itl_ms"]["n"] == 0


def test_one_token_an_event_makes_itl() -> None:
    assert report([row()], SLO)["percentiles"]["itl_ms"]["n"] == 4
    assert report([row(estimated=True)], SLO)["percentiles"]["itl_ms"]["n"] == 0


def test_a_single_token_has_no_tpot() -> None:
    assert tpot(row(output_tokens=1, gaps_ms=[])) is None


def test_goodput_counts_all_that_were_due_and_from_when_they_were_due() -> None:
    rows = [
        row(),
        row(due_ms=-60.0),
        row(output_tokens=1, last_ms=50.0, gaps_ms=[]),
        row(last_ms=150.0),
        row(first_ms=None, last_ms=None),
        failed(),
        row("incomplete"),
    ]
    good = report(rows, SLO, window_s=2.0)["goodput"]
    assert (good["due"], good["met"], good["attainment"], good["per_s"]) == (7, 2, 2 / 7, 1.0)
    assert report(rows, {}, window_s=2.0)["goodput"]["met"] == 5


def test_lateness_is_the_generators_own_delay() -> None:
    assert report([row(due_ms=-3.0)], SLO)["percentiles"]["lateness_ms"]["p50"] == 3.0
    assert report([row()], SLO)["percentiles"]["lateness_ms"]["n"] == 0


def test_every_status_has_its_group() -> None:
    statuses = ["ok", "http_error", "stream_error", "empty_stream", "timeout", "client_cancel", "incomplete", "shed"]
    assert reconcile([row(status) for status in statuses]) == {
        "sent": 8, "ok": 1, "failed": 4, "refused": 1, "cancelled": 1, "incomplete": 1,
    }  # fmt: skip
