"""Client, wire and records agree to the request, and a run whose books differ is invalid."""

from __future__ import annotations

import sqlite3
import subprocess
import sys

import pytest
from live_server import ROOT, LiveServer
from relay import Relay

CUT = (5, 11, 17, 23, 31, 43, 57)
REFUSED = (9, 29, 49)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reconciliation")
    with LiveServer(folder / "data", "--runner", "simulated") as server, Relay(server.url, CUT, REFUSED) as relay:
        started = server.post("/api/runs", {"external": True, "name": "through a relay", "scenario": "poisson"})
        command = [
            sys.executable, "-m", "loadgen", "--scenario", "poisson", "--url", relay.url, "--run", started["id"], "--seed", "3",
            "--set", "rate=12", "--set", "duration_s=8", "--set", "output_tokens=24", "--set", "drain_s=5",
            "--out", str(folder / "out"),
        ]  # fmt: skip
        child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert child.returncode == 0, child.stderr
        server.post(f"/api/runs/{started['id']}/stop", {})
        yield server, relay, started["id"], folder


def test_the_report_counts_what_the_relay_counted(run):
    server, relay, run_id, _ = run
    report = server.get(f"/api/runs/{run_id}/report")
    books = report["reconciliation"]
    assert relay.posts >= max(CUT)
    assert books["sent"] == relay.posts
    assert books["sent"] == sum(books[part] for part in ("ok", "failed", "refused", "cancelled", "incomplete"))
    assert books["failed"] == len(CUT)
    assert books["refused"] == len(REFUSED)
    assert books["server_rows"] == relay.posts - len(REFUSED)
    assert books["difference"] == 0
    # A busy machine may add that the generator or the host was slow; what must not be is that the books differ.
    assert report["verdict"] in ("valid", "generator_limited", "host_limited"), report["headline"]


def test_the_ten_that_broke_are_named(run):
    server, relay, run_id, _ = run
    books = server.get(f"/api/runs/{run_id}/report")["reconciliation"]
    assert len(relay.cut_ids) == 7
    assert len(relay.refused_ids) == 3
    assert {row["id"] for row in books["broken"]} == set(relay.cut_ids)
    assert set(books["unreached"]) == set(relay.refused_ids)


def test_a_cut_stream_is_a_client_gone_on_the_server(run):
    server, relay, run_id, _ = run
    rows = server.get(f"/api/requests?run={run_id}&finish=abort&limit=100")["items"]
    gone = {row["client_request_id"] for row in rows}
    assert gone <= set(relay.cut_ids)
    assert {row["detail"] for row in rows} <= {"client_gone"}


def test_one_row_lost_makes_the_run_invalid_and_names_it(run):
    server, _, run_id, folder = run
    [database] = (folder / "data").glob("*.db")
    with sqlite3.connect(database, timeout=10) as connection:
        [lost] = connection.execute(
            "SELECT client_request_id FROM requests WHERE run = ? AND finish = 'length' LIMIT 1", (run_id,)
        ).fetchone()
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("DELETE FROM requests WHERE run = ? AND client_request_id = ?", (run_id, lost))
    report = server.get(f"/api/runs/{run_id}/report")
    assert report["verdict"] == "invalid"
    assert lost in report["reconciliation"]["missing_on_server"]
    assert lost in report["verdict_reason"]
