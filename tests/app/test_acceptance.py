"""Acceptance: recorded and submitted in parallel; whatever nobody waits for ends, through the engine or in the web's name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from web_builders import answer, finished, first_token, queued, scheduled, submit

from app.acceptance import Acceptance
from app.api import outcomes
from app.serving.answers import Answer
from app.serving.in_flight import InFlight
from app.store.accepted import AcceptedRow
from app.store.errors import StoreBusy, StoreFull
from scheduler.engine.messages import Submit

ROW = AcceptedRow("req_a", 0, 0, "completions")


class FakeWriter:
    def __init__(self) -> None:
        self.trouble: Exception | None = None
        self.done: Callable[[Exception | None], object] | None = None
        self.ends: list[tuple[Any, ...]] = []
        self.refusals: list[tuple[Any, ...]] = []

    def accept(self, row: AcceptedRow, done: Callable[[Exception | None], object]) -> None:
        self.done = done

    def end(self, *args: Any) -> None:
        self.ends.append(args)

    def refuse(self, row: AcceptedRow, *why: Any) -> None:
        self.refusals.append((row.id, *why))


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
    def __init__(self, up: bool = True, clock: Callable[[], int] = lambda: 77) -> None:
        self.writer, self.engine, self.flight = FakeWriter(), FakeEngine(up), InFlight()
        writer, engine = self.writer, self.engine
        self.acceptance = Acceptance(
            writer, self.flight, storage_problem=outcomes.storage, crash_problem=outcomes.crashed,  # type: ignore[arg-type]
            timeout_problem=outcomes.timed_out, poison_problem=outcomes.poison, clock=clock,
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
    stage.acceptance.engine_gone()
    assert [(each.id, each.resubmitted) for each in stage.acceptance.resubmit()] == [("req_waited", True)]
    assert ("req_had", "error", "engine_crash", 77) in stage.writer.ends
    assert ("req_left", "abort", "client_gone", 77) in stage.writer.ends
    assert had.problem is not None and had.problem.code == "engine_crash" and waited.problem is None


def test_who_left_or_came_while_there_was_no_engine_is_not_forgotten() -> None:
    stage = Stage(up=False)
    left, came = stage.begin(answer("req_left")), stage.begin(answer("req_came"))
    left.stream.lost = "client_gone"
    assert [each.id for each in stage.acceptance.resubmit()] == ["req_came"] and not came.over
    assert stage.writer.ends == [("req_left", "abort", "client_gone", 77)]


def test_one_that_ends_while_the_others_are_submitted_again_is_left_out() -> None:
    stage = Stage(up=False)
    stage.begin(answer("req_a"))
    gone = stage.begin(answer("req_b"))
    going = stage.acceptance.resubmit()
    assert next(going).id == "req_a"
    gone.stream.lost = "client_gone"
    stage.acceptance.settle(gone)
    assert list(going) == [] and stage.writer.ends == [("req_b", "abort", "client_gone", 77)]


def test_without_an_engine_a_time_out_is_kept_by_the_web() -> None:
    stage = Stage(up=False)
    late, early = answer("req_late"), answer("req_early")
    for one, timeout_at in ((late, 77), (early, 78)):
        one.tracks[0].submit = submit(one.id, timeout_at=timeout_at)
        stage.begin(one)
    stage.acceptance.expire()
    assert late.problem is not None and late.problem.status == 504 and early.problem is None
    assert stage.writer.ends == [("req_late", "timeout", None, 77)] and stage.flight.find("req_late") is None


def test_what_the_records_would_refuse_now_is_not_submitted() -> None:
    stage = Stage()
    stage.writer.trouble = StoreFull("no room")
    one = stage.begin(answer())
    assert one.problem is not None and (one.problem.status, one.problem.code) == (503, "storage_full")
    assert stage.engine.submitted == [] and stage.writer.done is None and stage.flight.sequences == 0


def test_each_refused_post_of_a_run_has_a_row_and_of_the_others_a_few_a_second() -> None:
    now = [0]
    stage = Stage(clock=lambda: now[0])
    for second in range(3):
        for number in range(50):
            now[0] = second * 1_000_000_000 + number
            stage.acceptance.refuse(AcceptedRow(f"other{second}", 0, 0, "completions"), 503, "shed")
            stage.acceptance.refuse(AcceptedRow("ours", 0, 0, "completions", run="run_a"), 503, "queue_full")
    told = [id for id, *_ in stage.writer.refusals]
    assert [told.count(id) for id in ("ours", "other0", "other1", "other2")] == [150, 10, 10, 10]
    assert stage.writer.refusals[0] == ("other0", 503, "shed", 0)


def test_what_killed_two_engines_ends_with_an_error_of_its_own_and_the_cause_is_known() -> None:
    stage = Stage()
    one, other = stage.begin(answer("req_p")), stage.begin(answer("req_w"))
    other.tracks[0].submit = submit("req_w", prompt=b"")
    assert len(list(stage.acceptance.resubmit())) == 2
    stage.flight.event(queued("req_p", 1))
    stage.flight.event(scheduled(1))
    assert not stage.acceptance.engine_gone()
    assert [each.id for each in stage.acceptance.resubmit()] == ["req_p"], "the suspect alone"
    stage.begin(answer("req_new"))
    assert "req_new" not in stage.engine.submitted[2:]
    assert stage.acceptance.engine_gone(), "the cause is known"
    assert one.problem is not None and (one.problem.status, one.problem.code) == (422, "poison_request")
    assert stage.writer.ends == [("req_p", "error", "poison_request", 77), ("req_new", "error", "poison_request", 77)]
    assert [each.id for each in stage.acceptance.resubmit()] == ["req_w"]


def test_who_is_tried_is_the_engines_whatever_its_time_out() -> None:
    stage = Stage()
    one = answer("req_p")
    one.tracks[0].submit = submit("req_p", timeout_at=77)
    stage.begin(one)
    list(stage.acceptance.resubmit())
    stage.flight.event(queued("req_p", 1))
    stage.flight.event(scheduled(1))
    stage.acceptance.engine_gone()
    assert [each.id for each in stage.acceptance.resubmit()] == ["req_p"]
    stage.acceptance.expire()
    assert stage.writer.ends == [] and one.problem is None, "it was given it, and may not have said so yet"


def test_while_one_is_tried_the_web_keeps_the_time_outs_and_aborts_of_who_waits_behind() -> None:
    stage = Stage()
    stage.begin(answer("req_p"))
    late, left = answer("req_late"), answer("req_left")
    late.tracks[0].submit = submit("req_late", prompt=b"", timeout_at=77)
    left.tracks[0].submit = submit("req_left", prompt=b"")
    stage.begin(late), stage.begin(left)
    list(stage.acceptance.resubmit())
    stage.flight.event(queued("req_p", 1))
    stage.flight.event(scheduled(1))
    stage.acceptance.expire()
    assert stage.writer.ends == [], "an engine keeps them itself"
    stage.acceptance.engine_gone()
    assert [each.id for each in stage.acceptance.resubmit()] == ["req_p"]
    stage.acceptance.expire()
    stage.acceptance.settle(left, "client_gone")
    assert stage.writer.ends == [("req_late", "timeout", None, 77), ("req_left", "abort", "client_gone", 77)]
    stage.flight.event(queued("req_p", 1))
    stage.flight.event(first_token(1))
    stage.acceptance.go_on()
    assert stage.engine.submitted[3:] == [], "nobody is left"


def test_a_hang_is_booked_as_one() -> None:
    stage = Stage()
    had = stage.begin(answer("req_had"))
    stage.flight.event(queued("req_had", 1))
    stage.flight.event(first_token(1))
    stage.acceptance.engine_gone("step_hang")
    assert stage.writer.ends == [("req_had", "error", "step_hang", 77)]
    assert had.problem is not None and had.problem.code == "step_hang"
