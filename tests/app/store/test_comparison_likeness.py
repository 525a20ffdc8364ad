"""Like for like, or in words why not."""

from __future__ import annotations

from typing import Any

from app.store.comparison_likeness import settings, warnings


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


def test_seed_model_version_verdict_and_a_change_in_mid_run_are_warned_of() -> None:
    other = report("2", run={"seed": 9, "versions": {"batchscope": "2"}}, verdict="invalid")
    other["engine"] = {"model": "n", "runner": "torch", "hardware": None}
    assert said(report("1"), other) == [
        "not like for like: seed 7 vs 9",
        "not like for like: model m vs n",
        "not like for like: batchscope 1 vs 2",
        "run 2 is invalid",
    ]
    pair = [report("1"), report("2", verdict=None, run={"status": "running"})]
    assert warnings(pair, [[{"at_s": 12.345}], []], []) == [
        "run 2 is running",
        "run 1 changed its settings in mid-run, at 12.3 s: see it split",
    ]
