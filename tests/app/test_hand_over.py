"""What a server does to a long run takes it minutes: who asked for it waits, and does not say that it failed."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from app.cli import hand_over, runs
from app.cli.failures import CommandError
from app.cli.server import TIMEOUT_S
from app.settings import ServerSettings

TAKES_S = 600.0


class Slow:
    """A server that is at it for TAKES_S."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def post(self, path: str, body: Any, timeout: float = TIMEOUT_S) -> Any:
        return self._after(timeout, f"{path} {body}")

    def delete(self, path: str, timeout: float = TIMEOUT_S) -> Any:
        return self._after(timeout, path)

    def _after(self, timeout: float, asked: str) -> Any:
        self.asked.append(asked)
        if timeout < TAKES_S:
            raise CommandError("no answer: timed out")
        return {}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Slow:
    slow = Slow()
    for module in (hand_over, runs):
        monkeypatch.setattr(module, "named_or_holding", lambda *_: slow)
    return slow


def test_a_long_run_is_taken_over_however_long_that_takes(
    server: Slow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hand_over.hand_over(ServerSettings(data_dir=str(tmp_path)), None, tmp_path / "run_a.db", "run_a")
    assert server.asked == ["/api/runs/adopt {'run': 'run_a'}"] and capsys.readouterr().err == ""


def test_a_long_run_is_deleted_however_long_that_takes(
    server: Slow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = argparse.Namespace(run=["run_a"], url=None, data_dir=str(tmp_path), json=False)
    assert runs.delete_runs(options) == 0
    assert server.asked == ["/api/runs/run_a"] and capsys.readouterr().out == "deleted run_a\n"
