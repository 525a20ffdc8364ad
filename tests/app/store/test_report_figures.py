"""What a report says of tenants, interference and waste is what the log says, folded by scheduler.metrics."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from records import MS, WALL, Records, make_bench, some_requests

from app.cli.report_text import report_text
from app.store import runs
from app.store.report_figures import slowest
from app.store.runs import NewRun
from app.store.step_figures import interference_json
from app.store.tenant_figures import fairness
from scheduler import metrics
from scheduler.core.events import Event, RequestFinished, StepCompleted


def play_run(records: Records, n: int = 10, **limits: Any) -> list[Event]:
    """n requests on a small scheduler in a run that is over; its events."""
    records.job(partial(runs.create, run=NewRun("one", WALL - 1, started_wall=WALL - 1, scenario="steady", seed=1)))
    bench = make_bench(2, **({"max_num_seqs": 3, "max_num_batched_tokens": 16} | limits))
    records.play(bench, some_requests(n), run="one")
    records.job(partial(runs.change, run_id="one", status="finished", ended_wall=WALL + 10**12))
    return bench.events


def row(tenant: str, n: int, **fields: Any) -> dict[str, Any]:
    """A server row: received at 0, admitted at 1 s, first token at 2 s, over at 4 s."""
    given: dict[str, Any] = {"tenant": tenant, "priority": 0, "finish": "length", "prompt_tokens": 100, "cached_tokens": 0}
    given |= {"output_tokens": 50, "sequences": 1, "received_at": 0, "scheduled_at": 1000 * MS, "first_token_at": 2000 * MS}
    given |= {"finished_at": 4000 * MS, "queue_ms": 1000.0, "ttft_ms": 2000.0, "e2e_ms": 4000.0, "id": f"{tenant}{n}"}
    return given | {f"wait_{reason}_ns": 0 for reason in metrics.WAIT_REASONS} | fields


def test_service_and_waits_by_tenant_are_those_of_the_log(records: Records) -> None:
    events = play_run(records)
    lives = list(metrics.lives(events).values())
    found = records.queries.report("one")["fairness"]
    expected = metrics.service((life.tenant, life.prompt_tokens, life.output_tokens) for life in lives)
    assert {name: each["service"] for name, each in found["tenants"].items()} == expected
    waited = metrics.waits(life for life in lives if life.tenant == "a")
    assert found["tenants"]["a"]["waits_ms"] == {reason: ns / 1e6 for reason, ns in waited.items() if ns}
    assert found["tenants"]["b"]["longest_wait_ms"] == max((life.queue or 0) / 1e6 for life in lives if life.tenant == "b")
    assert found["drift"] is not None and found["drift"]["service"] > 0


def test_interference_is_that_of_the_log_and_names_who_prefilled(records: Records) -> None:
    events = play_run(records)
    found = records.queries.report("one")["interference"]
    told = metrics.interference(metrics.step_loads(events))
    assert told is not None and (found["mixed_steps"], found["compared"]) == (told.mixed, told.compared)
    first, step = found["worst"][0], told.worst[0]
    (completed,) = [each for each in events if isinstance(each, StepCompleted) and each.seq == step.seq]
    names = {life.number: life.id for life in metrics.lives(events).values()}
    assert {each["id"]: each["tokens"] for each in first["prefilled"]} == {
        names[number]: tokens for number, tokens, _ in completed.chunks
    }


def test_preemptions_cost_tokens_and_the_report_says_how_many(records: Records) -> None:
    events = play_run(records, blocks=10)
    found = records.queries.report("one")["waste"]
    again = metrics.recomputed(metrics.relapses(events))
    ended = [event for event in events if isinstance(event, RequestFinished)]
    assert found["recomputed_tokens"] == again > 0
    assert found["preemptions_a_request"] == sum(event.preemptions for event in ended) / len(ended) > 0
    loads = metrics.step_loads([])
    assert loads == [] and 0 < found["kv_used"]["mean"] <= found["kv_used"]["peak"] <= 1


def test_a_run_without_steps_has_undefined_figures(records: Records) -> None:
    records.job(partial(runs.create, run=NewRun("none", WALL, status="finished", foreign_target=True)))
    report = records.queries.report("none")
    assert report["interference"] is None and report["fairness"]["drift"] is None
    assert {name for name, value in report["waste"].items() if value is not None} == {"recomputed_tokens"}
    assert interference_json(None, [], {}) is None
    assert report_text(report)


def test_weights_of_the_policy_count_in_jain() -> None:
    rows = [row("a", n) for n in range(4)] + [row("b", n) for n in range(2)]
    assert fairness(rows, {}, None, 1e9)["jain"] == pytest.approx(0.9)
    found = fairness(rows, {"policy_params": {"weight.a": 2.0, "quantum": 512}}, None, 1e9)
    assert found["jain"] == pytest.approx(1.0) and found["tenants"]["a"]["weight"] == 2.0


def test_a_request_that_was_never_admitted_starved_until_its_end_and_a_refused_one_did_not() -> None:
    lost = {"scheduled_at": None, "first_token_at": None, "queue_ms": None, "ttft_ms": None}
    rows = [row("a", 1), row("a", 2, finish="timeout", **lost), row("a", 3, finish="rejected", **lost)]
    assert fairness(rows, {}, None, 1500.0)["starvation"] == {
        "longest_ms": 4000.0, "longest_id": "a2", "over": 1, "threshold_ms": 1500.0, "n": 2,
    }  # fmt: skip


def test_an_inversion_needs_a_better_class_that_was_held_back() -> None:
    late = {"scheduled_at": 3000 * MS}
    assert fairness([row("a", 1, **late), row("b", 1)], {}, None, 1e9)["inversions"] is None
    better = row("a", 1, priority=0, **late)
    assert fairness([better, row("b", 1, priority=5)], {}, None, 1e9)["inversions"] == {"admissions": 2, "inverted": 1}
    arriving = better | {"wait_step_ns": 1500 * MS}  # until then it waited for a step to end, not for its turn
    assert fairness([arriving, row("b", 1, priority=5)], {}, None, 1e9)["inversions"] == {"admissions": 2, "inverted": 0}


def test_slowdown_needs_a_cost_model_and_is_one_alone() -> None:
    hardware = "h100-llama-3.1-8b-tp1-bf16"
    assert fairness([row("a", 1)], {}, None, 1e9)["tenants"]["a"]["slowdown"] is None
    assert fairness([row("a", 1)], {}, "/gone/model.json", 1e9)["tenants"]["a"]["slowdown"] is None
    found = fairness([row("a", 1), row("b", 1, e2e_ms=8000.0)], {"max_num_batched_tokens": 256}, hardware, 1e9)
    assert found["slowdown_ratio"] == {"of": "slowdown", "value": pytest.approx(2.0)}
    assert found["tenants"]["a"]["slowdown"]["p50"] > 5


def test_the_text_says_who_was_in_whose_way(records: Records) -> None:
    play_run(records, blocks=10)
    said = report_text(records.queries.report("one"))
    for words in (
        "of the service",
        "TTFT p95 ms",
        "Jain's index",
        "of all decode time",
        "worst: ",
        "computed twice",
        "KV memory",
    ):
        assert words in said


def test_the_slowest_answers_are_named_and_those_that_did_not_end_well_are_none() -> None:
    rows = [
        row("a", 1, ttft_ms=2500.0),
        row("a", 2, e2e_ms=9000.0),
        row("a", 3, finish="abort", ttft_ms=8000.0, e2e_ms=99_000.0),
    ]
    assert slowest(rows) == {"ttft_ms": {"id": "a1", "ms": 2500.0}, "e2e_ms": {"id": "a2", "ms": 9000.0}}
    assert slowest([row("a", 1, ttft_ms=None, finish="stop")]) == {"e2e_ms": {"id": "a1", "ms": 4000.0}}
