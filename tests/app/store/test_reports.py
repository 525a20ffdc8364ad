"""A report is what the rows say: it reconciles to the request, and a row deleted by hand shows."""

from __future__ import annotations

from functools import partial

import pytest
from played_run import add_lines, line, play_run
from records import MS, WALL, Records

from app.store import runs
from app.store.advice import INSTEAD, suggestion
from app.store.errors import QueryError
from app.store.reconcile import mismatch
from app.store.reports import Slo
from app.store.runs import NewRun
from app.store.verdict import bound_by, headline
from scheduler.core.events import RequestFinished
from scheduler.core.request import FinishReason
from scheduler.metrics import percentile


def test_a_clean_run_is_valid_and_says_what_to_try(records: Records) -> None:
    play_run(records)
    report = records.queries.report("one")
    assert (report["verdict"], report["verdict_reason"]) == ("valid", None)
    assert report["headline"] == "valid: 100 % of the waiting was for slots; try max_num_seqs 4"
    reconciliation = report["reconciliation"]
    assert (reconciliation["sent"], reconciliation["ok"], reconciliation["server_rows"], reconciliation["difference"]) == (
        8,
        8,
        8,
        0,
    )


def test_a_server_row_deleted_by_sql_makes_it_invalid_and_is_named(records: Records) -> None:
    play_run(records)
    records.sql("DELETE FROM requests WHERE id = 'r3'")
    report = records.queries.report("one")
    assert report["verdict"] == "invalid" and "c-r3" in report["verdict_reason"] and report["headline"].startswith("invalid: ")
    assert report["reconciliation"]["missing_on_server"] == ["c-r3"] and report["reconciliation"]["difference"] == -1


def test_a_client_row_that_never_came_makes_it_invalid_and_is_named(records: Records) -> None:
    play_run(records)
    records.sql("DELETE FROM client_requests WHERE client_request_id = 'c-r5'")
    report = records.queries.report("one")
    assert report["verdict"] == "invalid" and report["reconciliation"]["missing_on_client"] == ["c-r5"]


def test_one_missing_and_one_too_many_do_not_cancel_out(records: Records) -> None:
    play_run(records)
    records.sql("UPDATE requests SET client_request_id = 'c-r4' WHERE id = 'r3'")
    report = records.queries.report("one")
    assert report["reconciliation"]["difference"] == 0 and report["verdict"] == "invalid"
    assert report["reconciliation"]["repeated_on_server"] == ["c-r4"]


def test_cut_streams_and_requests_refused_on_the_way_are_named_and_do_not_invalidate(records: Records) -> None:
    play_run(records)
    cut = {"status": "stream_error", "error": "connection reset", "last_ms": 45.0}
    refused = {
        "status": "http_error",
        "http": 502,
        "error": "bad gateway",
        "server_id": None,
        "first_ms": None,
        "last_ms": None,
    }
    records.sql("DELETE FROM client_requests WHERE client_request_id IN ('c-r0', 'c-r1')")
    add_lines(
        records, "one", [line("c-r0", 0, **cut), line("c-r1", 1, **cut), line("x-1", 9, **refused), line("x-2", 10, **refused)]
    )
    report = records.queries.report("one")
    reconciliation = report["reconciliation"]
    assert report["verdict"] == "valid"
    assert {each["id"] for each in reconciliation["broken"]} == {"c-r0", "c-r1", "x-1", "x-2"}
    assert reconciliation["unreached"] == ["x-1", "x-2"] and reconciliation["difference"] == 0
    parts = ("ok", "failed", "refused", "cancelled", "incomplete")
    assert reconciliation["sent"] == sum(reconciliation[name] for name in parts) == 10


def test_percentiles_are_exact_and_of_good_answers_only(records: Records) -> None:
    bench = play_run(records)
    report = records.queries.report("one")
    server = report["percentiles"]["server"]["e2e_ms"]
    rows = sorted(e.parts.total / 1e6 for e in bench.of(RequestFinished) if e.reason is FinishReason.LENGTH)
    assert server["p95"] == percentile(rows, 95) and server["n"] == 8
    client = report["percentiles"]["client"]
    assert client["ttft_ms"]["p50"] == 40.0 and client["tpot_ms"]["p99"] == 10.0 and client["e2e_ms"]["p90"] == 60.0
    assert client["itl_ms"] == {"p50": 10.0, "p90": 12.0, "p95": 12.0, "p99": 12.0, "n": 16, "few": ["p95", "p99"]}
    assert client["lateness_ms"]["p99"] == 0.0


def test_what_nobody_measured_is_null(records: Records) -> None:
    play_run(records)
    records.sql("UPDATE client_requests SET due_ms = NULL")
    report = records.queries.report("one")
    assert report["percentiles"]["client"]["ttft_due_ms"]["p50"] is None
    assert report["percentiles"]["client"]["lateness_ms"]["n"] == 0


def test_goodput_counts_every_request_sent_and_from_when_it_was_due(records: Records) -> None:
    play_run(records)
    records.sql("UPDATE client_requests SET due_ms = sent_ms - 30 WHERE n < 2")
    records.sql("UPDATE client_requests SET status = 'timeout' WHERE n = 7")
    found = records.queries.report("one", Slo(ttft_ms=50, tpot_ms=10))["goodput"]
    assert (found["good"], found["n"], found["attainment"]) == (5, 8, 5 / 8)
    assert found["slo"] == {"ttft_ms": 50, "tpot_ms": 10, "ttft_from": "due"}
    seconds = records.queries.report("one")["throughput"]["duration_s"]
    assert found["per_s"] == 5 / seconds
    assert records.queries.report("one", Slo(ttft_ms=50, tpot_ms=9.9))["goodput"]["good"] == 0


def test_the_slo_comes_from_the_scenario(records: Records) -> None:
    play_run(records, parameters={"slo_ttft_ms": 77})
    assert records.queries.report("one")["goodput"]["slo"]["ttft_ms"] == 77.0


def test_a_late_generator_or_a_full_core_is_generator_limited(records: Records) -> None:
    play_run(records)
    records.sql("UPDATE client_requests SET due_ms = sent_ms - 80 WHERE n = 7")
    late = records.queries.report("one")
    assert late["verdict"] == "generator_limited" and "late at p99" in late["verdict_reason"]
    records.sql("UPDATE client_requests SET due_ms = sent_ms")
    records.sql("UPDATE runs SET generator_cpu_high = TRUE")
    assert records.queries.report("one")["verdict"] == "generator_limited"


def test_simulated_hardware_that_the_host_cannot_pace_is_host_limited(records: Records) -> None:
    play_run(records)
    records.sql("UPDATE steps SET host_late_ns = 2000000 WHERE step % 20 = 1")
    assert records.queries.report("one")["verdict"] == "valid"  # real hardware has nothing to be late for
    records.sql("UPDATE boots SET runner = 'simulated' WHERE boot = 2")
    report = records.queries.report("one")
    assert report["verdict"] == "host_limited" and report["simulated"]


def test_a_limited_run_says_its_cause_first_and_then_how_far_it_holds(records: Records) -> None:
    play_run(records)
    records.sql("UPDATE boots SET runner = 'simulated' WHERE boot = 2")
    records.sql("UPDATE steps SET host_late_ns = (ended_at - started_at) / 50")
    report = records.queries.report("one")
    cause = "100 % of the waiting was for slots; try max_num_seqs 4"
    late = "100.0 % of the simulated steps ended late on this host, by 2.0 % of all step time"
    assert (report["verdict_reason"], report["steps"]["host_late_time"]) == (late, pytest.approx(0.02, rel=1e-3))
    assert report["headline"] == f"{cause}; host limited: steps 2.0 % late, latencies too long by about as much"
    records.sql("UPDATE steps SET host_late_ns = (ended_at - started_at) / 2")
    assert records.queries.report("one")["headline"].endswith("; `batchscope simulate --run one` needs no host's pace")
    records.sql("UPDATE runs SET generator_cpu_high = TRUE")
    assert records.queries.report("one")["headline"].startswith(
        f"{cause}; generator limited: the load generator's core was full ("
    )


def test_what_a_run_is_told_to_try_fits_its_hardware(records: Records) -> None:
    play_run(records)
    records.sql("UPDATE requests SET wait_slots_ns = 0, wait_kv_blocks_ns = 1000000")
    records.sql("UPDATE boots SET runner = 'simulated', hardware = 'rtx4090-llama3.1-8b-tp1-bf16' WHERE boot = 2")
    records.sql('UPDATE runs SET settings = \'{"kv_cache_tokens": 41408, "block_size": 16}\'')
    assert records.queries.report("one")["headline"].endswith(
        f"for KV blocks; try {INSTEAD}: the 41408 tokens of KV cache are all that fit"
    )


def test_what_bound_is_what_the_first_line_names_and_nothing_where_only_steps_were_waited_for() -> None:
    assert bound_by({}) is None and bound_by({"step": {"ms": 9.0, "share": 1.0}}) is None
    assert bound_by({"step": {"ms": 9.0, "share": 0.9}, "slots": {"ms": 1.0, "share": 0.1}}) == "slots"
    assert bound_by({"quota": {"ms": 9.0, "share": 0.9}, "slots": {"ms": 1.0, "share": 0.1}}) == "quota"


def test_a_run_under_way_has_no_verdict_yet(records: Records) -> None:
    play_run(records)
    records.sql("UPDATE runs SET status = 'running'")
    report = records.queries.report("one")
    assert report["verdict"] is None and report["headline"].startswith("running: ")


def test_a_run_that_failed_is_invalid_however_well_its_rows_match(records: Records) -> None:
    play_run(records)
    records.sql("UPDATE runs SET status = 'failed', error = 'web_crash'")
    report = records.queries.report("one")
    assert (report["verdict"], report["verdict_reason"]) == ("invalid", "the run failed: web_crash")


def test_a_run_without_any_request_is_invalid(records: Records) -> None:
    records.job(partial(runs.create, run=NewRun("empty", WALL, status="finished")))
    report = records.queries.report("empty")
    assert report["verdict"] == "invalid" and report["throughput"]["requests_s"] is None
    assert report["timeline"]["t"] == [] and report["fairness"]["jain"] is None


def test_a_run_against_another_server_is_not_reconciled(records: Records) -> None:
    records.job(partial(runs.create, run=NewRun("far", WALL, status="finished", foreign_target=True)))
    add_lines(records, "far", [line("c-1", 1)])
    report = records.queries.report("far")
    assert report["verdict"] == "valid" and report["reconciliation"]["server_rows"] is None


def test_waits_are_shares_of_all_waiting_and_fairness_is_by_tenant(records: Records) -> None:
    bench = play_run(records)
    report = records.queries.report("one")
    waited = sum(sum(event.parts.waits) for event in bench.of(RequestFinished))
    assert sum(each["ms"] for each in report["waits"].values()) == pytest.approx(waited / MS)
    assert sum(each["share"] for each in report["waits"].values()) == pytest.approx(1)
    tenants = report["fairness"]["tenants"]
    assert set(tenants) == {"a", "b"} and sum(each["share"] for each in tenants.values()) == pytest.approx(1)
    assert 0.5 <= report["fairness"]["jain"] <= 1


def test_the_timeline_accounts_for_every_request_once(records: Records) -> None:
    play_run(records)
    timeline = records.queries.report("one")["timeline"]
    assert sum(timeline["sent"]) == 8 and sum(timeline["done"]) == 8 and sum(timeline["failed"]) == 0
    assert len({len(column) for column in timeline.values()}) == 1
    assert timeline["waiting"][0] is not None


def test_runs_stand_side_by_side_with_differences(records: Records) -> None:
    play_run(records)
    play_run(records, "two", boot=3, prefix="t-")
    records.sql("UPDATE client_requests SET first_ms = first_ms + 10 WHERE run = 'two'")
    found = records.queries.compare(["one", "two"])
    metrics = {each["name"]: each for each in found["metrics"]}
    ttft = metrics["percentiles.client.ttft_ms.p95"]
    assert ttft["values"] == [40.0, 50.0] and ttft["difference"] == [0.0, 10.0] and ttft["relative"] == [0.0, 0.25]
    assert found["differing"] == [] and found["warnings"] == []
    records.sql("UPDATE runs SET seed = 2, settings = '{\"max_num_seqs\": 9}' WHERE id = 'two'")
    found = records.queries.compare(["one", "two"])
    assert {"name": "max_num_seqs", "of": "settings", "values": [2, 9]} in found["differing"]
    assert found["warnings"] == ["not like for like: seed 1 vs 2"]


@pytest.mark.parametrize("ids", [["one"], ["one", "one"], ["one", "nobody"], [str(n) for n in range(6)]])
def test_a_comparison_needs_two_to_five_runs_that_exist(records: Records, ids: list[str]) -> None:
    play_run(records)
    with pytest.raises(QueryError):
        records.queries.compare(ids)


def test_every_kind_of_waiting_has_its_advice() -> None:
    settings = {"max_num_seqs": 16, "max_num_batched_tokens": 256, "kv_cache_tokens": 6144}
    assert suggestion("kv_blocks", settings) == "kv_cache_tokens 8192"
    assert suggestion("slots", settings) == "max_num_seqs 32"
    assert suggestion("token_budget", settings) == "max_num_batched_tokens 512"
    assert suggestion("static_batch", settings) == "batching continuous"
    assert suggestion("engine_down", settings) is None
    assert headline("valid", None, {}, settings) == "valid: nobody waited; try a higher rate"
    waits = {"kv_blocks": {"ms": 72.0, "share": 0.72}, "slots": {"ms": 28.0, "share": 0.28}}
    assert headline("valid", None, waits, settings) == "valid: 72 % of the waiting was for KV blocks; try kv_cache_tokens 8192"
    assert suggestion("step", settings, 0.8) == "max_num_batched_tokens 128 for shorter steps"
    assert suggestion("step", settings, 0.01) == "a higher rate: the limits did not bind"
    waits = {"step": {"ms": 84.8, "share": 0.848}, "kv_blocks": {"ms": 15.2, "share": 0.152}}
    said = headline("valid", None, waits, settings, steps={"budget_used": 0.01})
    assert said == (
        "valid: 85 % of the waiting was for the running step to end, 15 % for KV blocks; try kv_cache_tokens 8192"
    ), "what bound is not said not to have bound"


def test_the_first_line_names_those_who_got_no_answer() -> None:
    lost = {"sent": 259, "failed": 4, "refused": 129}
    line = headline("valid", None, {}, {}, reconciliation=lost)
    assert line == "valid: 4 failed and 129 refused of 259 sent; nobody waited; try a higher rate"
    assert "of 259" not in headline("valid", None, {}, {}, reconciliation={**lost, "failed": 0, "refused": 0})


def test_one_request_has_and_two_have_no_row() -> None:
    lists: dict[str, list[str]] = {"missing_on_server": ["a"], "missing_on_client": [], "repeated_on_server": []}
    one = mismatch(lists | {"counts": {name: len(ids) for name, ids in lists.items()}})
    assert one == "1 request reached the server but has no row there: a"
    lists["missing_on_server"] = ["a", "b"]
    two = mismatch(lists | {"counts": {name: len(ids) for name, ids in lists.items()}})
    assert two == "2 requests reached the server but have no row there: a, b"
