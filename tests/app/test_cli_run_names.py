"""A run that is named on the command line: one that is not there is said to be so, one that goes on can be stopped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from app.cli import main, requests, runs
from app.cli.failures import CommandError
from app.cli.load import follow
from app.cli.server import Server
from app.store.errors import QueryError

Capture = pytest.CaptureFixture[str]


class Records:
    """Knows `run_empty`, which has no requests, and no other run."""

    def requests(self, filters: dict[str, str]) -> dict[str, Any]:
        return {"items": [], "total": 0, "total_exact": True, "next_cursor": None}

    def run(self, run: str) -> dict[str, Any]:
        if run != "run_empty":
            raise QueryError(f"there is no run {run!r}", "run")
        return {"id": run}


@pytest.mark.parametrize("form", [[], ["--json"], ["--format", "csv"]])
def test_requests_of_a_run_that_is_not_there_are_an_error(
    form: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(requests, "records", lambda *_: Records())
    assert main(["requests", "--run", "run_nope", *form]) == 1
    said = capsys.readouterr()
    assert "run_nope" in said.err and said.out == ""
    assert main(["requests", "--run", "run_empty", *form]) == 0


class Loads:
    """A server whose runs are in the state `status`, and stop at once."""

    def __init__(self, status: str) -> None:
        self.status = status
        self.asked: list[tuple[str, Any]] = []

    def get(self, path: str) -> dict[str, Any]:
        return {"status": self.status}

    def post(self, path: str, body: Any) -> dict[str, Any]:
        self.asked.append((path, body))
        return {"status": "stopped"}


@pytest.mark.parametrize(("words", "now"), [([], False), (["--now"], True)])
def test_a_run_that_goes_on_can_be_stopped(
    words: list[str], now: bool, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    server = Loads("running")
    monkeypatch.setattr(runs, "named_or_holding", lambda *_: server)
    assert main(["runs", "stop", "run/a", *words]) == 0
    assert server.asked == [("/api/runs/run%2Fa/stop", {"now": now})]
    assert "asked run run/a to stop" in capsys.readouterr().out


@pytest.mark.parametrize("status", ["finished", "failed", "stopped"])
def test_stopping_a_run_that_has_ended_says_that_it_has(status: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(runs, "named_or_holding", lambda *_: Loads(status))
    assert main(["runs", "stop", "run_a"]) == 0
    assert f"has ended already: it is {status}" in capsys.readouterr().out


def test_a_load_whose_server_is_gone_names_its_run_and_how_to_read_it() -> None:
    gone = Server("http://127.0.0.1:9")
    with pytest.raises(CommandError, match=r"no answer from .*; what run run_a recorded is kept: `batchscope report run_a`"):
        follow(gone, {"id": "run_a", "scenario": "steady"})


def test_a_load_of_a_place_where_nobody_answers_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["load", "tutorial", "--url", "http://127.0.0.1:9"]) == 1
    assert "wrote no rows" in capsys.readouterr().err and os.listdir(tmp_path) == []


@pytest.mark.parametrize(("served", "said"), [(True, "running"), (False, "its server is gone")])
def test_a_run_goes_on_only_where_its_server_does(
    served: bool, said: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    class Listed:
        def __init__(self) -> None:
            self.served = served

        def runs(self, limit: int) -> dict[str, Any]:
            run = {"id": "run_1", "started": None, "scenario": "steady", "name": None, "status": "running", "simulated": False}
            return {"items": [run], "total": 1}

    monkeypatch.setattr(runs, "records", lambda *_: Listed())
    assert main(["runs"]) == 0
    assert said in capsys.readouterr().out
