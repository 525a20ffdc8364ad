"""The noisy neighbour live, on simulated hardware: fcfs lets tenant a wait behind all of b, vtc does not, and compare says so.

How near to alone vtc keeps it is held on a simulated clock (tests/scheduler/test_noisy_neighbour.py): on a shared machine only
the order of magnitude can be.
"""

from __future__ import annotations

import urllib.error
from pathlib import Path
from typing import Any

from live_server import LiveServer, wait_until

from app.cli.comparison_text import comparison_text

LIMITS = {"max_num_seqs": 16, "max_num_batched_tokens": 2048, "max_model_len": 4096}
PARAMETERS = {"polite_rate": 2, "polite_prompt": 400, "noisy_users": 150, "noisy_prompt": 30, "noisy_output": 12}
ENDED = ("finished", "failed", "stopped")


def play(server: LiveServer, policy: str, **changes: Any) -> str:
    """A short noisy_neighbour run under `policy`, waited for; its id."""
    asked = {"scenario": "noisy_neighbour", "set": PARAMETERS | {"noisy_from_s": 0.5, "duration_s": 3.5} | changes}

    def begin() -> Any:
        try:
            return server.post("/api/runs", asked | {"scheduler": {"policy": policy}})
        except urllib.error.HTTPError as error:  # the last run's settings are being restored
            assert error.code == 409, error.read()
            return None

    run = str(wait_until(begin, 20, "the last run to be over")["id"])
    wait_until(lambda: server.get(f"/api/runs/{run}")["status"] in ENDED, 60, "the run to end")
    return run


def test_compare_shows_that_vtc_keeps_a_noisy_tenant_from_a_polite_one(tmp_path: Path) -> None:
    limits = [word for name, value in LIMITS.items() for word in ("--set", f"{name}={value}")]
    with LiveServer(tmp_path, "--runner", "simulated", "--hardware", "rtx4090-llama3.1-8b-tp1-bf16", *limits) as server:
        runs = [play(server, "fcfs", noisy_users=0, duration_s=2), play(server, "fcfs"), play(server, "vtc")]
        found = server.get("/api/compare?runs=" + ",".join(runs))
        received = server.get(f"/api/requests?run={runs[1]}&tenant=a&sort=received&limit=1000")["items"]
    tenants = {row["name"]: row for row in found["tenants"]}
    alone, fcfs, vtc = tenants["a"]["values"]
    assert fcfs > 3 * alone and fcfs > 1.5 * vtc, found["tenants"]
    assert received[-1]["ttft_ms"] > 3 * received[0]["ttft_ms"], "under fcfs it grows with the run"
    assert tenants["b"]["values"][0] is None and all(run["reconciliation"]["failed"] == 0 for run in found["runs"])
    slots = next(row for row in found["waits"] if row["name"] == "slots")
    assert slots["shares"][1] > 0.5, "they wait for slots"
    differing = {row["name"]: row["values"] for row in found["differing"]}
    assert differing["policy"] == ["fcfs", "fcfs", "vtc"] and differing["noisy_users"] == [0, 150, 150]
    said = comparison_text(found)
    assert "TTFT p95 by tenant" in said and "noisy_users 0 vs 150 vs 150" in said
