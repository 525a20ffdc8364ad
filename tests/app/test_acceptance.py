"""Acceptance: recorded and submitted in parallel; whatever nobody waits for ends, through the engine or in the web's name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from web_builders import answer, finished, first_token, queued

from app.acceptance import Acceptance
from app.api import outcomes
from app.serving.answers import Answer
from app.serving.in_flight import InFlight
from app.store.accepted import AcceptedRow
from app.store.errors import StoreBusy
from scheduler.engine.messages import Submit

ROW = AcceptedRow("req_a", 0, 0, "completions")


class FakeWriter:
    def __init__(self) -> None:
        self.done: Callable[[Exception | None], object] | None = None
        self.ends: list[tuple[Any, ...]] = []

    def accept(self, row: AcceptedRow, done: Callable[[Exception | None], object]) -> None:
        self.done = done

    def end(self, *args: Any) -> None:
        self.ends.append(args)


class FakeEngine:
    def __init__(self, up: bool = True) -> None:
        self.up = up
        self.submitted: list[str] = []
        self.aborted: list[tuple[list[str], str]] = []

    def submit(self, submits: Iterable[Submit]) -> None:
        self.submitted += [submit.id for submit in submits]

    def abort(self, ids: list[str], detail: str) -> bool:
        if self.up:
            self.aborted.append((ids, detail))
        return self.up


class Stage:
    def __init__(self, up: bool = True) -> None:
        self.writer, self.engine, self.flight = FakeWriter(), FakeEngine(up), InFlight()
        writer, engine = self.writer, self.engine
        self.acceptance = Acceptance(
            writer, self.flight, storage_problem=outcomes.storage, crash_problem=outcomes.crashed, clock=lambda: 77  # type: ignore[arg-type]
        )  # fmt: skip
        self.acceptance.engine = engine  # type: ignore[assignment]

    def begin(self, one: Answer) -> Answer:
        self.acceptance.begin(ROW, one, [track.submit for track in one.tracks if track.submit is not None])
        return one


def test_an_answer_is_recorded_and_submitted_without_waiting_for_either() -> None:
    stage = Stage()
    one = stage.begin(answer())
    assert stage.engine.submitted == ["req_a"] and not one.committed
    assert stage.writer.done is not None
    stage.writer.done(None)
    assert one.committed


def test_a_record_that_fails_refuses_the_answer() -> None:
    stage = Stage()
    one = stage.begin(answer())
    assert stage.writer.done is not None
    stage.writer.done(StoreBusy("full"))
    assert one.problem is not None and (one.problem.status, one.problem.code) == (503, "storage_busy")
    stage.acceptance.settle(one)
    assert stage.engine.aborted == [(["req_a"], "operator")]


def test_a_client_that_left_is_aborted_by_its_reason_and_a_finished_answer_is_not() -> None:
    stage = Stage()
    one, two = stage.begin(answer()), stage.begin(answer("req_b"))
    one.stream.lost = "slow_client"
    stage.flight.event(finished("req_b", 0))
    stage.acceptance.settle(one)
    stage.acceptance.settle(two)
    assert stage.engine.aborted == [(["req_a"], "slow_client")]


def test_without_an_engine_the_web_ends_it_in_the_records() -> None:
    stage = Stage(up=False)
    one = stage.begin(answer())
    one.stream.lost = "client_gone"
    stage.acceptance.settle(one)
    assert stage.writer.ends == [("req_a", "abort", "client_gone", 77)] and stage.flight.sequences == 0


def test_cancel_reaches_a_live_request_only() -> None:
    stage = Stage()
    stage.begin(answer("req_a/0", "req_a/1"))
    assert stage.acceptance.cancel("req_a") and not stage.acceptance.cancel("req_zzz")
    assert stage.engine.aborted == [(["req_a/0", "req_a/1"], "operator")]


def test_cancel_without_an_engine_tells_the_client() -> None:
    stage = Stage(up=False)
    one = stage.begin(answer())
    assert stage.acceptance.cancel("req_a")
    assert one.over and one.stream.ended and stage.writer.ends == [("req_a", "abort", "operator", 77)]


def test_an_engines_death_ends_who_had_a_token_and_marks_the_others_resubmitted() -> None:
    stage = Stage()
    had, waited, left = stage.begin(answer("req_had")), stage.begin(answer("req_waited")), stage.begin(answer("req_left"))
    stage.flight.event(queued("req_had", 1))
    stage.flight.event(first_token(1))
    left.stream.lost = "client_gone"
    again = stage.acceptance.engine_gone()
    assert [(each.id, each.resubmitted) for each in again] == [("req_waited", True)]
    assert ("req_had", "error", "engine_crash", 77) in stage.writer.ends
    assert ("req_left", "abort", "client_gone", 77) in stage.writer.ends
    assert had.problem is not None and had.problem.code == "engine_crash" and waited.problem is None
