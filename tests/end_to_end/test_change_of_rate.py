"""The rate of a run is changed while it goes on, by API and by command: what was asked, what came, and where it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from live_server import LiveServer, wait_until

from app.cli import main


def test_a_change_of_rate_is_made_recorded_and_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LiveServer(tmp_path / "d", "--runner", "simulated") as server:
        asked = {"rate": 8.0, "duration_s": 8.0, "drain_s": 5.0, "prompt_tokens": 8, "output_tokens": 4}
        run = server.post("/api/runs", {"scenario": "poisson", "set": asked})["id"]
        path = f"/api/runs/{run}"

        def said() -> dict[str, Any]:
            return server.get(path)["progress"] or {}

        wait_until(lambda: said().get("rate_factor") == 1.0, what="the generator's first word")
        assert server.post(f"{path}/rate", {"factor": 10}) == {"run": run, "asked": {"rate_factor": 10.0}}
        (change,) = wait_until(lambda: said().get("rate_changes"), what="the change")
        marks = [mark["text"] for mark in server.get("/api/live")["markers"]]
        assert marks[-1] == "rate × 10"
        wait_until(lambda: server.get(f"/api/requests?run={run}&limit=1")["total"] > 40, what="a crowd")
        assert main(["runs", "rate", run, "0.1", "--url", server.url]) == 0
        assert capsys.readouterr().out == f"asked run {run} for 0.1 times its scenario's load\n"
        ended = wait_until(lambda: (found := server.get(path))["ended"] and found, what="the end")
        slow = ended["progress"]["rate_changes"][1]
        report = server.get(f"{path}/report")
        other = server.post("/api/runs", {"external": True})["id"]
        server.post(f"/api/runs/{other}/stop", {})
        warnings = server.get(f"/api/compare?runs={run},{other}")["warnings"]
    assert slow["factor"] == 0.1 and ended["progress"]["rate_factor"] == 0.1
    assert ended["rate_changed"] == f"rate × 10 at {change['at_s']:.1f} s, rate × 0.1 at {slow['at_s']:.1f} s"
    assert any(f"run {run} was changed by hand: rate × 10" in each for each in warnings), warnings
    assert report["run"]["rate_changed"] == ended["rate_changed"] and report["reconciliation"]["difference"] == 0
    fast, rest = slow["at_s"] - change["at_s"], change["at_s"] + 0.1 * (8 - slow["at_s"])
    expected = 8 * rest + 80 * fast
    assert report["reconciliation"]["sent"] == pytest.approx(expected, abs=5 * expected**0.5)
