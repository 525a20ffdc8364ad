"""Runs side by side: differences first, figures with intervals, the same answer each time."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from records import WALL, Records, make_row, only_sqlite

from app.store import client_rows, reports, runs
from app.store.runs import NewRun

REQUESTS = 60


def add_run(
    records: Records, id: str, *, slower_ms: float = 0.0, tenants: str = "ab", requests: int = REQUESTS, **fields: Any
) -> None:
    """A run whose requests took 40 ms to the first token, each 1 more than the one before, and 20 more to the last of 3."""
    records.job(partial(runs.create, run=NewRun(id, WALL - 1, started_wall=WALL - 1, scenario="steady", seed=1, **fields)))
    lines = []
    for n in range(requests):
        records.accept(make_row(f"{id}-{n}", n, run=id, client_request_id=f"c-{n}", tenant=tenants[n % len(tenants)]))
        sent, ttft = 10.0 * n, 40.0 + n + slower_ms
        given = {
            "sent_ms": sent,
            "due_ms": sent,
            "first_ms": sent + ttft,
            "last_ms": sent + ttft + 20,
            "end_ms": sent + ttft + 21,
        }
        given |= {"status": "ok", "http": 200, "prompt_tokens": 5, "output_tokens": 3, "gaps_ms": [8.0, 12.0]}
        lines.append({"id": f"c-{n}", "n": n, "server_id": f"{id}-{n}", "attempts": 1} | given)
    records.job(partial(client_rows.add, run=id, rows=[client_rows.row(id, each) for each in lines]))
    records.sql("UPDATE requests SET state = 'finished', finish = 'length', ttft_ms = ? WHERE run = ?", 50.0 + slower_ms, id)
    records.job(partial(runs.change, run_id=id, status="finished", ended_wall=WALL + 10**12))


def limit(monkeypatch: pytest.MonkeyPatch, id: str) -> None:
    """The host of that run was late."""
    known = {id: ("host_limited", "the host was late")}
    monkeypatch.setattr(reports, "verdict", lambda found, **_: known.get(found["run"]["id"], ("valid", None)))


def metric(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(row for row in found["metrics"] if row["name"] == name)


def test_a_real_difference_lies_outside_of_what_chance_makes(records: Records) -> None:
    add_run(records, "one", settings={"policy": "fcfs"})
    add_run(records, "two", settings={"policy": "vtc"}, slower_ms=50)
    found = records.queries.compare(["one", "two"])
    row = metric(found, "percentiles.client.ttft_ms.p50")
    assert row["difference"] == [0.0, 50.0] and row["n"] == [REQUESTS, REQUESTS] and row["interval"][0] is None
    low, high = row["interval"][1]
    assert 0 < low < 50 < high < 100
    assert metric(found, "percentiles.client.ttft_ms.p99")["few"] == [True, True]
    assert found["differing"] == [{"name": "policy", "of": "settings", "values": ["fcfs", "vtc"]}] and found["warnings"] == []


def test_the_interval_of_a_change_is_of_ratios_and_is_what_is_read(records: Records) -> None:
    add_run(records, "one", settings={"policy": "fcfs"}, slower_ms=50)
    add_run(records, "two", settings={"policy": "vtc"})
    row = metric(records.queries.compare(["one", "two"]), "percentiles.client.ttft_ms.p50")
    assert row["relative"][1] == pytest.approx(-50 / 119.5) and row["relative_interval"][0] is None
    low, high = row["relative_interval"][1]
    assert -1 < low < row["relative"][1] < high < 0
    assert row["interval"][1][0] / 119.5 != pytest.approx(low, rel=1e-3)


@only_sqlite
def test_a_repeat_is_said_to_be_one_and_read_in_nothing(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    for id in ("one", "two"):
        add_run(records, id, slower_ms=500 if id == "two" else 0, requests=120)
    limit(monkeypatch, "two")
    found = records.queries.compare(["one", "two"])
    assert found["differing"] == [] and {word for row in found["metrics"] + found["tenants"] for word in row["reading"]} == {
        None
    }
    assert found["sentence"].startswith("A and B are repeats of one run: this is how far repeats differ, most in ")
    assert found["sentence"].endswith("; the host limited B")


@only_sqlite
def test_a_judgement_holds_within_the_runs_at_hand_and_says_whose_host_was_late(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    for id, policy in (("one", "fcfs"), ("two", "vtc")):
        add_run(records, id, settings={"policy": policy}, slower_ms=500 if id == "two" else 0, requests=120)
    limit(monkeypatch, "one")
    found = records.queries.compare(["one", "two"])
    assert found["sentence"].startswith("B is worse: TTFT from due p95 ×")
    assert "sure within these two runs; the host limited A)" in found["sentence"]


@only_sqlite
def test_equal_runs_differ_by_nothing_and_chance_says_so(records: Records) -> None:
    add_run(records, "one")
    add_run(records, "two")
    found = records.queries.compare(["one", "two"])
    low, high = metric(found, "percentiles.client.ttft_ms.p95")["interval"][1]
    assert low < 0 < high
    assert found == records.queries.compare(["one", "two"]), "the same rows must give the same intervals"


def test_attainment_has_an_interval_and_an_undefined_figure_has_none(records: Records) -> None:
    add_run(records, "one", parameters={"slo_ttft_ms": 70.0})
    add_run(records, "two", parameters={"slo_ttft_ms": 70.0}, slower_ms=20)
    found = records.queries.compare(["one", "two"])
    row = metric(found, "goodput.attainment")
    assert row["values"] == [31 / 60, 11 / 60] and row["n"] == [60, 60]
    low, high = row["interval"][1]
    assert low < -20 / 60 < high < 0
    queue = metric(found, "percentiles.server.queue_ms.p95")
    assert queue["values"] == [None, None] and queue["interval"] == [None, None] and queue["n"] == [0, 0]


def test_every_tenant_of_any_run_has_its_row(records: Records) -> None:
    add_run(records, "one", tenants="a")
    add_run(records, "two", tenants="ab", slower_ms=5)
    rows = {row["name"]: row for row in records.queries.compare(["one", "two"])["tenants"]}
    assert rows["a"]["values"] == [50.0, 55.0] and rows["a"]["n"] == [60, 30]
    assert rows["b"]["values"] == [None, 55.0] and rows["b"]["n"] == [None, 30]
    assert rows["a"]["requests"] == [60, 30] and rows["b"]["requests"] == [None, 30]


@only_sqlite
def test_parameters_that_differ_are_named_one_by_one(records: Records) -> None:
    add_run(records, "one", parameters={"users": 32, "rate": 1.0})
    add_run(records, "two", parameters={"users": 0, "rate": 1.0})
    found = records.queries.compare(["one", "two"])
    assert found["warnings"] == ["not like for like: users 32 vs 0"]
    assert found["differing"] == [{"name": "users", "of": "parameters", "values": [32, 0]}]


@only_sqlite
@pytest.mark.parametrize("other", [(), ("two", "three", "four", "five")])
def test_up_to_five_runs_stand_beside_the_base(records: Records, other: tuple[str, ...]) -> None:
    names = ["one", *(other or ("two",))]
    for place, name in enumerate(names):
        add_run(records, name, slower_ms=place)
    found = records.queries.compare(names)
    assert all(len(row["values"]) == len(names) for row in found["metrics"] + found["tenants"])
    assert metric(found, "reconciliation.sent")["values"] == [60] * len(names)
