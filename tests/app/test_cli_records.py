"""Records over HTTP: what takes long says how far it is, and can be left."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import redirect_stderr
from typing import Any, cast

import pytest

from app.cli import records
from app.cli.records import ServerRecords, progress
from app.cli.server import Server

FAR = {"run": "run_b", "what": "client_requests", "rows": 30_000, "of": 120_000, "elapsed_s": 2.0}
AMONG = FAR | {"ready": 1, "runs": 3}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Answers:
    """A server that gives these in turn, and keeps what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.left = list(answers)
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def get(self, path: str, query: Mapping[str, Any]) -> Any:
        self.asked.append((path, dict(query)))
        answer = self.left.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "POLL_S", 0)


def of(server: Answers) -> ServerRecords:
    return ServerRecords(cast(Server, server))


def test_a_comparison_of_long_runs_shows_how_far_it_is_until_it_is_there() -> None:
    server = Answers({"computing": AMONG}, {"computing": AMONG | {"rows": 60_000}}, {"runs": []})
    with redirect_stderr(Terminal()) as shown:
        assert of(server).compare(["run_a", "run_b", "run_c"]) == {"runs": []}
    assert server.asked == [("/api/compare", {"runs": "run_a,run_b,run_c", "wait": 0})] * 3
    said = shown.getvalue()
    assert "of run run_b (2 of 3)" in said and "60,000 of 120,000 rows so far" in said and said.endswith("\n")


def test_what_is_there_at_once_shows_no_line() -> None:
    with redirect_stderr(Terminal()) as shown:
        assert of(Answers({"verdict": "valid"})).report("run/a") == {"verdict": "valid"}
    assert shown.getvalue() == ""


def test_who_leaves_is_told_that_the_figures_are_made_all_the_same() -> None:
    with redirect_stderr(Terminal()) as shown, pytest.raises(KeyboardInterrupt):
        of(Answers({"computing": AMONG}, KeyboardInterrupt())).compare(["run_a", "run_b"])
    assert shown.getvalue().endswith("rows so far\nthe server goes on making the figures and keeps them: ask again later\n")


def test_who_leaves_before_anything_is_made_is_told_nothing() -> None:
    with redirect_stderr(Terminal()) as shown, pytest.raises(KeyboardInterrupt):
        of(Answers(KeyboardInterrupt())).report("run_a")
    assert shown.getvalue() == ""


@pytest.mark.parametrize(
    ("far", "done", "text"),
    [
        (FAR, 0.25, "making the figures: client requests, 30,000 of 120,000 rows so far"),
        (FAR | {"rows": 130_000}, 1.0, "making the figures: client requests, 130,000 of 120,000 rows so far"),
        (AMONG, 0.25, "making the figures of run run_b (2 of 3): client requests, 30,000 of 120,000 rows so far"),
        (FAR | {"rows": 0, "of": 0}, None, "making the figures: client requests, 0 of 0 rows so far"),
    ],
)
def test_progress_is_a_share_of_the_rows_that_are_read(far: dict[str, Any], done: float | None, text: str) -> None:
    assert progress(far) == (done, text)
