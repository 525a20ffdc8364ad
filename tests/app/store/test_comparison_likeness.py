"""Like for like, or in words why not."""

from __future__ import annotations

from typing import Any

import pytest

from app.store.comparison_likeness import offered, repeats, settings, warnings


def report(id: str, **changes: Any) -> dict[str, Any]:
    run = {
        "id": id,
        "scenario": "steady",
        "seed": 7,
        "target": "http://127.0.0.1",
        "parameters": {"users": 3},
        "status": "finished",
    }
    run |= {"versions": {"batchscope": "1", "simulation": {"boot": int(id)}}} | changes.pop("run", {})
    given = {
        "run": run,
        "settings": {"policy": "fcfs"},
        "verdict": "valid",
        "reconciliation": {"sent": 9, "incomplete": 0},
        "throughput": {"offered_s": None},
        "engine": {"model": "m", "runner": "torch", "hardware": None},
    }
    return given | changes


def said(*reports: dict[str, Any]) -> list[str]:
    return warnings(reports, [[] for _ in reports], settings(reports)[0])


def test_runs_alike_differ_in_nothing_and_need_no_warning() -> None:
    differing, equal = settings([report("1"), report("2")])
    assert differing == [] and said(report("1"), report("2")) == []
    assert {row["name"] for row in equal} == {
        "policy", "users", "scenario", "seed", "target", "model", "runner", "hardware", "batchscope",
    }  # fmt: skip


def test_a_setting_that_differs_is_what_is_compared_and_no_warning() -> None:
    pair = [report("1"), report("2", settings={"policy": "sjf", "seats": 2})]
    assert settings(pair)[0] == [
        {"name": "policy", "of": "settings", "values": ["fcfs", "sjf"]},
        {"name": "seats", "of": "settings", "values": [None, 2]},
    ]
    assert said(*pair) == []


def test_a_run_of_which_nothing_differs_from_the_first_repeats_it_whatever_a_third_was_asked() -> None:
    three = [report("1"), report("2", verdict="host_limited"), report("3", settings={"policy": "sjf"})]
    assert repeats(three, [[], [], []], settings(three)[0]) == {1}
    assert repeats(three[:2], [[], []], []) == {1}


@pytest.mark.parametrize("place", [0, 1])
def test_what_was_changed_while_it_went_on_is_no_repeat(place: int) -> None:
    pair = [report("1"), report("2")]
    changed = [[{"at_s": 3.0}] if each == place else [] for each in (0, 1)]
    assert repeats(pair, changed, []) == set()
    pair[place]["run"]["rate_changed"] = "rate × 2 at 31.4 s"
    assert repeats(pair, [[], []], []) == set()


def test_seed_model_version_verdict_and_a_change_in_mid_run_are_warned_of() -> None:
    other = report("2", run={"seed": 9, "versions": {"batchscope": "2"}}, verdict="invalid")
    other["engine"] = {"model": "n", "runner": "torch", "hardware": None}
    assert said(report("1"), other) == [
        "not like for like: seed 7 vs 9, model m vs n, batchscope 1 vs 2",
        "run 2 is invalid",
    ]
    pair = [report("1"), report("2", verdict=None, run={"status": "running"})]
    assert warnings(pair, [[{"at_s": 12.345}], []], []) == [
        "run 2 is running",
        "run 1 changed its settings in mid-run, at 12.3 s: see it split",
    ]


def test_a_parameter_that_was_left_out_reads_like_one_that_was_given() -> None:
    pair = [report("1", run={"parameters": {"duration_s": 60.0}}), report("2", run={"parameters": {"duration_s": 25}})]
    assert said(*pair) == ["not like for like: duration_s 60 vs 25"]


def test_a_load_that_was_changed_by_hand_is_not_like_any_other() -> None:
    by_hand = report("2", run={"rate_changed": "rate × 2 at 31.4 s"})
    assert said(report("1", run={"rate_changed": None}), by_hand) == [
        "not like for like: the load of run 2 was changed by hand: rate × 2 at 31.4 s"
    ]


def test_what_only_some_have_is_named_without_a_value() -> None:
    pair = [report("1", run={"parameters": {"rate": 5.0, "cv": 2}}), report("2")]
    assert said(*pair) == ["not like for like: not all have rate, cv, users"]


def test_a_limited_run_is_said_with_what_that_means() -> None:
    limited = said(report("1"), report("2", verdict="host_limited"))
    assert limited == ["run 2 is host limited: its latencies are too long by what this host was late, counts and causes hold"]


def test_who_never_ended_is_said_to_be_in_no_latency() -> None:
    lost = report("1", reconciliation={"sent": 202, "incomplete": 35})
    assert said(lost, report("2")) == ["figures are over answers that ended well; run 1 has 35 of 202 incomplete"]


def test_loads_that_differ_by_more_than_two_percent_are_warned_of() -> None:
    rates = [report(str(n), throughput={"offered_s": rate}) for n, rate in enumerate((10.4, 10.5, 11.2, None))]
    assert offered(rates[:2]) == [] and offered([rates[0], rates[3]]) == []
    assert offered([rates[0], rates[2]]) == ["not like for like: offered 10.4/s vs 11.2/s"]
