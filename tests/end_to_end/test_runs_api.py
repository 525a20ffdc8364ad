"""Load runs over HTTP, with a generator that is somebody else's: registered, told of, ended, compared, deleted."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from live_server import LiveServer, wait_until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("runs"), "--runner", "null") as started:
        yield started


def refused(server: LiveServer, path: str, body: Any = None, method: str = "POST") -> tuple[int, str | None, str | None]:
    with pytest.raises(urllib.error.HTTPError) as caught:
        server.post(path, {} if body is None else body, method=method) if method != "GET" else server.get(path)
    with caught.value as answer:
        error = json.load(answer)["error"]
    return caught.value.code, error["param"], error["code"]


def deliver(server: LiveServer, run: str, *lines: dict[str, Any]) -> Any:
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    headers = {"Content-Type": "application/x-ndjson"}
    with urllib.request.urlopen(
        urllib.request.Request(f"{server.url}/api/runs/{run}/client_requests", data, headers)
    ) as answer:
        return json.load(answer)


def finish_a_run(server: LiveServer, name: str) -> str:
    """An external run of one request that both sides saw; its id."""
    registered = server.post("/api/runs", {"external": True, "name": name})
    run: str = registered["id"]
    assert registered["seed"] == 1  # as on the command line: the same scenario is the same load wherever it is started
    headers = {"X-Batchscope-Run": run, "X-Request-Id": f"{run}-1"}
    server.post("/v1/completions", {"model": "null", "prompt": "x", "max_tokens": 2}, headers)
    seen = {
        "id": f"{run}-1",
        "n": 1,
        "status": "ok",
        "http": 200,
        "sent_ms": 1.0,
        "first_ms": 2.0,
        "last_ms": 3.0,
        "end_ms": 3.0,
    }
    assert deliver(server, run, seen) == {"accepted": 1, "duplicates": 0}
    assert deliver(server, run, seen) == {"accepted": 0, "duplicates": 1}
    wait_until(lambda: server.get(f"/api/requests?run={run}&state=finished")["items"])
    assert server.post(f"/api/runs/{run}/stop", {})["status"] == "finished"
    return run


def test_an_external_run_is_reconciled_and_a_second_stop_changes_nothing(server: LiveServer) -> None:
    run = finish_a_run(server, "one")
    report = server.get(f"/api/runs/{run}/report")
    assert report["verdict"] == "valid" and report["reconciliation"]["difference"] == 0
    assert server.get(f"/api/runs/{run}")["verdict"] == "valid"
    assert server.post(f"/api/runs/{run}/stop", {})["status"] == "finished"


def test_two_runs_are_compared_and_deleting_one_takes_its_requests(server: LiveServer) -> None:
    one, two = finish_a_run(server, "one"), finish_a_run(server, "two")
    compared = server.get(f"/api/compare?runs={one},{two}")
    assert [each["run"]["id"] for each in compared["runs"]] == [one, two] and compared["metrics"]
    assert server.post(f"/api/runs/{one}", {}, method="DELETE")["requests"] == 1
    assert refused(server, f"/api/runs/{one}", method="GET") == (404, None, "run_not_found")
    assert server.get(f"/api/requests?run={one}")["items"] == []


def test_one_run_is_active_and_cannot_be_deleted(server: LiveServer) -> None:
    run = server.post("/api/runs", {"external": True, "name": "held"})["id"]
    assert refused(server, "/api/runs", {"scenario": "steady"}) == (409, None, "run_active")
    assert refused(server, f"/api/runs/{run}", method="DELETE") == (409, None, "run_active")
    server.post(f"/api/runs/{run}/stop", {})


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({}, 400, "scenario"),
        ({"scenario": "nowhere"}, 400, "scenario"),
        ({"scenario": "../../etc"}, 400, "scenario"),
        ({"scenario": 7}, 400, "scenario"),
        ({"scenario": "steady", "colour": 1}, 400, "colour"),
        ({"scenario": "steady", "set": {"users": 0}}, 400, "set.users"),
        ({"scenario": "steady", "set": []}, 400, "set"),
        ({"scenario": "steady", "seed": -1}, 400, "seed"),
        ({"scenario": "steady", "processes": 1000}, 400, "processes"),
        ({"scenario": "steady", "scheduler": {"block_size": 4}}, 400, "scheduler.block_size"),
    ],
)
def test_a_run_that_cannot_be_is_refused_by_name(server: LiveServer, body: Any, status: int, param: str) -> None:
    assert refused(server, "/api/runs", body)[:2] == (status, param)


def test_a_bad_record_of_a_client_is_refused_by_name(server: LiveServer) -> None:
    run = server.post("/api/runs", {"external": True})["id"]
    for line, param in (({"id": "a", "status": "fine"}, "status"), ({"status": "ok"}, "id")):
        with pytest.raises(urllib.error.HTTPError) as caught:
            deliver(server, run, line)
        with caught.value as answer:
            assert caught.value.code == 400 and json.load(answer)["error"]["param"] == param
    assert refused(server, "/api/runs/run_nowhere/stop") == (404, None, "run_not_found")
    server.post(f"/api/runs/{run}/stop", {})


@pytest.mark.parametrize("body", [{}, {"factor": 0}, {"factor": 11}, {"factor": True}, {"factor": "2"}, {"factor": 2, "x": 1}])
def test_a_factor_that_cannot_be_is_refused_by_name(server: LiveServer, body: Any) -> None:
    run = server.post("/api/runs", {"external": True})["id"]
    status, param, _ = refused(server, f"/api/runs/{run}/rate", body)
    assert (status, param) == (400, "x" if "x" in body else "factor")
    server.post(f"/api/runs/{run}/stop", {})


def test_the_rate_of_a_run_that_nobody_here_makes_cannot_be_changed(server: LiveServer) -> None:
    run = server.post("/api/runs", {"external": True})["id"]
    assert refused(server, f"/api/runs/{run}/rate", {"factor": 2}) == (409, None, "rate_fixed")
    server.post(f"/api/runs/{run}/stop", {})
    assert refused(server, f"/api/runs/{run}/rate", {"factor": 2}) == (409, None, "rate_fixed")
    assert refused(server, "/api/runs/run_nowhere/rate", {"factor": 2})[2] == "run_not_found"
    assert refused(server, f"/api/runs/{run}/rate", method="GET")[0] == 405


def test_failures_are_grouped_and_lead_to_a_request(server: LiveServer) -> None:
    run = server.post("/api/runs", {"external": True})["id"]
    shed = {"status": "shed", "http": 429, "error": "busy"}
    deliver(server, run, *({"id": f"{run}-{n}", "end_ms": 1000.0 * n, "server_id": f"req_{n}", **shed} for n in (1, 2)))
    (group,) = server.get(f"/api/runs/{run}/failures")["items"]
    assert (group["count"], group["first_s"], group["last_s"]) == (2, 1.0, 2.0) and group["sample"] in ("req_1", "req_2")
    assert server.get(f"/api/runs/{run}/log") == {"lines": []}
    server.post(f"/api/runs/{run}/stop", {})


def test_what_a_scenario_offers_is_told_by_its_parameters(server: LiveServer) -> None:
    found = server.get("/api/scenarios/shape/offered?shape=0:1+20:8&duration_s=20")
    assert found["streams"][0]["expected"] == 90 and found["duration_s"] == 20
    assert refused(server, "/api/scenarios/shape/offered?shape=0:1+20-8", method="GET")[:2] == (400, "shape")
    assert refused(server, "/api/scenarios/nowhere/offered", method="GET")[0] == 404
    assert refused(server, "/api/runs", {"scenario": "shape", "set": {"shape": "0:1 5-5"}})[:2] == (400, "set.shape")


def test_the_scenarios_are_listed_with_their_parameters(server: LiveServer) -> None:
    names = [each["name"] for each in server.get("/api/scenarios")["items"]]
    assert {"first_look", "steady", "poisson", "burst", "noisy_neighbour", "tutorial"} <= set(names)
    assert server.get("/api/scenarios/steady")["parameters"]
    assert refused(server, "/api/scenarios/nowhere", method="GET")[0] == 404


@pytest.mark.parametrize("size", ["0", "1001", "000001" + "9" * 30, "9" * 5000])
def test_a_limit_that_is_none_is_named_however_long_it_is(server: LiveServer, size: str) -> None:
    assert refused(server, f"/api/runs?limit={size}", method="GET")[:2] == (400, "limit")


@pytest.mark.parametrize("name", ["from_seq", "to_seq"])
def test_a_seq_that_no_database_takes_is_named(server: LiveServer, name: str) -> None:
    assert refused(server, f"/api/steps?{name}={1 << 63}", method="GET")[:2] == (400, name)


def test_a_setting_beyond_64_bits_is_named(server: LiveServer) -> None:
    assert refused(server, "/api/scheduler", {"max_num_seqs": 10**20 - 1}, "PATCH")[:2] == (400, "max_num_seqs")
    assert refused(server, "/api/runs", {"external": True, "set": {"a": 1 << 64}})[:2] == (400, "set.a")
