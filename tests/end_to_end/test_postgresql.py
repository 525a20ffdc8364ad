"""A server that keeps its records in PostgreSQL: a load run and its pages; one writer; the database dies in mid-run."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import postgres
import pytest
from live_server import ROOT, LiveServer, wait_until
from plain_client import Call, Ledger, gauges

from app.store import soundness

HARDWARE = ("--runner", "simulated", "--hardware", "h100-llama-3.1-8b-tp1-bf16")
_names = count()


class ServerLedger(Ledger):
    """What the database says, over a connection of its own."""

    def __init__(self, url: str) -> None:
        super().__init__(Path())
        self._url = url

    def ask(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        return postgres.rows(self._url, statement, *values)

    @property
    def damage(self) -> list[str]:
        return soundness.faults(self._url)


@pytest.fixture(scope="module")
def cluster(say: Callable[[str], None]) -> Iterator[postgres.Cluster]:
    if postgres.binaries() is None:
        say(f"SKIPPED: a server on PostgreSQL was not tested: {postgres.HOW}")
        pytest.skip(postgres.HOW)
    with postgres.Cluster() as started:
        yield started


@pytest.fixture(scope="module")
def url(cluster: postgres.Cluster) -> str:
    return cluster.make("live")


@pytest.fixture(scope="module")
def server(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("postgresql") / "d", *HARDWARE, env={"BATCHSCOPE_DATABASE_URL": url}) as started:
        yield started


def answer(server: LiveServer, path: str, body: Any = None) -> tuple[int, Any]:
    """Status and JSON, whatever it is."""
    try:
        return 200, server.get(path) if body is None else server.post(path, body)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def at_rest(server: LiveServer, url: str) -> None:
    wait_until(lambda: not (gauges(server)["waiting"] or gauges(server)["running"]), what="the server to come to rest")
    wait_until(lambda: not ServerLedger(url).open, what="every row to end")


def test_a_load_run_is_recorded_reported_and_read_by_every_page(server: LiveServer, url: str) -> None:
    run = server.post("/api/runs", {"scenario": "tutorial"})["id"]
    wait_until(lambda: server.get(f"/api/runs/{run}")["status"] == "finished", 60, "the run to end")
    report = server.get(f"/api/runs/{run}/report")
    counted = report["reconciliation"]
    assert counted["sent"] == counted["ok"] == counted["server_rows"] == 5 and counted["difference"] == 0
    page = server.get(f"/api/requests?run={run}&q=state:finished&sort=-ttft_ms&limit=2")
    assert page["total"] == 5 and len(page["items"]) == 2
    rest = server.get(f"/api/requests?run={run}&q=state:finished&sort=-ttft_ms&limit=9&cursor={page['next_cursor']}")
    ids = [item["id"] for item in page["items"] + rest["items"]]
    assert len(set(ids)) == 5 and rest["next_cursor"] is None
    detail = server.get(f"/api/requests/{ids[0]}")
    assert sum(detail["slices"]["emitted"]) == detail["output_tokens"] and detail["client"]["status"] == "ok"
    facets = {each["field"]: each["values"] for each in server.get(f"/api/requests/facets?run={run}")["facets"]}
    assert facets["state"] == [{"value": "finished", "count": 5}]
    assert server.get(f"/api/requests/spread?run={run}&measure=e2e_ms")["percentiles"]
    assert server.get(f"/api/requests/summary?run={run}&group_by=tenant")["total"]["count"] == 5
    steps = server.get(f"/api/steps?run={run}")["steps"]
    assert len(steps["seq"]) == report["steps"]["n"] > 0
    assert server.get(f"/api/steps/{steps['boot'][0]}/{steps['seq'][0]}")["chunks"]
    assert server.get(f"/api/segments?run={run}")["segments"]["id"]
    assert server.get("/api/runs")["items"][0]["id"] == run
    ServerLedger(url).check()


def test_the_sql_of_a_question_runs_there_and_the_console_says_that_it_is_for_the_file(server: LiveServer, url: str) -> None:
    asked = server.get("/api/requests/sql?q=state:finished&sort=received")
    assert asked["dialect"] == "postgresql"
    listed = server.get("/api/requests?q=state:finished&sort=received&limit=1000")["items"]
    assert [row[0] for row in postgres.rows(url, asked["sql"])] == [item["id"] for item in listed] != []
    status, said = answer(server, "/api/sql", {"sql": "SELECT 1"})
    assert status == 400 and "embedded database" in said["error"]["message"]


def test_a_second_server_on_the_same_database_is_refused(server: LiveServer, url: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "app.serve", "--port", "0", "--data-dir", str(tmp_path / "other"), *HARDWARE]
    done = subprocess.run([*command, "--database-url", url], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "is locked by another process" in done.stderr, done.stderr
    assert server.get("/livez")["status"] == "ok"


def refused_soon(server: LiveServer) -> None:
    """New work is refused by name; what came before the fault was met is answered either way."""

    def asked() -> bool:
        call = Call(server, f"refused-{next(_names)}", streamed=False).over()
        assert call.status in (200, 503), call.data
        return call.error == "storage_failed" and 1 <= int(call.header("Retry-After") or 0) <= 60

    wait_until(asked)


def test_a_database_that_dies_refuses_new_work_serves_the_old_and_loses_nothing(
    server: LiveServer, url: str, cluster: postgres.Cluster
) -> None:
    running = Call(server, "running", max_tokens=20_000).until(lambda data: b'"text"' in data)
    short = Call(server, "short", max_tokens=300).until(lambda data: b'"text"' in data)
    assert answer(server, "/api/requests")[0] == 200, "a reader has a connection, which will be dead"
    cluster.kill()
    refused_soon(server)
    assert answer(server, "/api/requests")[1]["error"]["code"] == "storage_failed"
    assert answer(server, "/readyz")[0] == 503
    before = running.data.count(b'"text"')
    running.until(lambda data: data.count(b'"text"') > before + 20)
    assert short.over().error is None, "what was accepted is served to its end"
    cluster.start()
    wait_until(lambda: answer(server, "/readyz")[0] == 200, what="the records to be taken again")
    assert Call(server, "next").over().error is None
    running.hang_up()
    at_rest(server, url)
    found = {row["client_request_id"]: row for row in server.get("/api/requests?limit=1000")["items"]}
    assert found["short"]["finish"] == "length" and found["running"]["detail"] == "client_gone"
    told = {name: row["status_code"] for name, row in found.items() if name.startswith("refused")}
    assert set(told.values()) <= {200}, "never accepted: never recorded"
    ServerLedger(url).check()
    assert "Traceback" not in server.text_of_log()
