"""Answers in flight: opening, text, ends, refusals, and what an engine's death means for each."""

from __future__ import annotations

from web_builders import FakeStream, answer, finished, first_token, queued, scheduled

from app.api.errors import Problem
from app.serving.answers import Answer
from app.serving.in_flight import InFlight
from scheduler.core.request import FinishReason


def sent(one: Answer) -> bytes:
    assert isinstance(one.stream, FakeStream)
    return one.stream.sent


def flying(*answers: Answer) -> InFlight:
    flight = InFlight(clock=lambda: 0)
    for one in answers:
        flight.add(one)
    return flight


def test_an_answer_opens_when_the_core_and_the_records_have_both_said_yes() -> None:
    first, second = answer("req_a"), answer("req_b")
    flight = flying(first, second)
    flight.event(queued("req_a"))
    assert not first.open
    first.commit(None)
    assert first.open and first.verdict
    second.commit(None)
    assert not second.open
    flight.event(queued("req_b", 2))
    assert second.open


def test_text_goes_to_its_sequence_by_number_and_is_kept() -> None:
    one = answer("req_a/0", "req_a/1")
    flight = flying(one)
    flight.event(queued("req_a/0", 5))
    flight.event(queued("req_a/1", 6))
    flight.step([6, 5, 99], ["x", "y", "z"])
    flight.step([6], [""])
    assert sent(one) == b"<1:x 0:y " and one.texts == ["y", "x"]


def test_text_that_is_not_kept_leaves_by_its_outlet_until_the_answer_is_over() -> None:
    ended, failed, kept, double = (
        answer("req_a", keep_text=False), answer("req_b", keep_text=False), answer("req_c"),
        answer("req_d/0", "req_d/1", keep_text=False),
    )  # fmt: skip
    flight = flying(ended, failed, kept, double)
    for number, id in enumerate(("req_a", "req_b", "req_c", "req_d/0", "req_d/1"), 1):
        flight.event(queued(id, number))
    flight.step([1, 2, 3, 4, 5], ["v", "w", "x", "y", "z"])
    assert [track.outlet is None for one in (ended, failed, kept, double) for track in one.tracks] == [False, False] + 3 * [
        True
    ]
    assert [sent(one) for one in (ended, failed, kept, double)] == [b"<0:v ", b"<0:w ", b"<0:x ", b"<0:y 1:z "]
    assert ended.texts == [""] and kept.texts == ["x"]
    ended.end(ended.tracks[0], finished("req_a", 1))
    failed.fail(Problem(500, "boom", None, "engine_crash"))
    flight.step([1, 2], ["late", "late"])
    assert sent(ended) == b"<0:v 0=stop >" and sent(failed) == b"<0:w !engine_crash>"


def test_an_answer_is_over_when_its_last_sequence_ends() -> None:
    one = answer("req_a/0", "req_a/1")
    flight = flying(one)
    for number, id in ((5, "req_a/0"), (6, "req_a/1")):
        flight.event(queued(id, number))
    flight.event(finished("req_a/0", 5))
    assert not one.over and one.unfinished == ["req_a/1"]
    flight.event(finished("req_a/1", 6, FinishReason.LENGTH))
    assert one.over and one.stream.ended and sent(one).endswith(b"0=stop 1=length >") and flight.sequences == 0


def test_a_bad_end_of_one_sequence_fails_the_answer_and_later_text_is_not_sent() -> None:
    one = answer("req_a/0", "req_a/1")
    flight = flying(one)
    for number, id in ((5, "req_a/0"), (6, "req_a/1")):
        flight.event(queued(id, number))
    flight.event(finished("req_a/0", 5, FinishReason.ERROR, detail="nan_logits"))
    flight.step([6], ["late"])
    assert one.over and sent(one) == b"<!nan_logits>" and one.unfinished == ["req_a/1"]
    flight.event(finished("req_a/1", 6))
    assert sent(one) == b"<!nan_logits>"


def test_a_refusal_by_the_core_comes_before_any_queueing() -> None:
    one = answer()
    flight = flying(one)
    flight.event(finished("req_a", 0, FinishReason.REJECTED, detail="queue_full"))
    assert one.verdict and not one.open and one.problem is not None and one.problem.code == "queue_full"


def test_a_row_that_cannot_be_written_is_a_verdict() -> None:
    one = answer()
    one.commit(Problem(503, "disk full", None, "storage_full"))
    assert one.verdict and not one.open and one.problem is not None


def test_the_place_in_the_queue_counts_who_waits() -> None:
    now = [0]
    flight = InFlight(clock=lambda: now[0])
    for number in range(1, 5):
        flight.add(answer(f"req_{number}"))
        flight.event(queued(f"req_{number}", number))
    assert flight.place().position == 4 and flight.place().start_ms is None
    flight.event(scheduled(1, at=0))
    flight.event(scheduled(2, at=10_000_000))
    now[0] = 20_000_000
    assert flight.waiting == 2 and flight.place().start_ms == 20.0
    third, fourth = flight.place_of("req_3"), flight.place_of("req_4")
    assert third is not None and fourth is not None and flight.place_of("req_1") is flight.place_of("nobody") is None
    assert (third.position, third.start_ms) == (1, 10.0) and (fourth.position, fourth.start_ms) == (2, 20.0)
    flight.event(scheduled(2, at=10_000_000, resumed=True))
    flight.event(finished("req_3", 3, FinishReason.ABORT))
    assert flight.waiting == 1


def test_a_dead_engine_loses_who_had_a_token_and_submits_the_others_again() -> None:
    had, waited, ran = answer("req_had"), answer("req_waited"), answer("req_ran")
    flight = flying(had, waited, ran)
    for number, id in ((1, "req_had"), (2, "req_waited"), (3, "req_ran")):
        flight.event(queued(id, number))
    flight.event(scheduled(1))
    flight.event(first_token(1))
    flight.event(scheduled(3))
    assert flight.engine_gone() == [had]
    flight.drop(had)
    assert [each.id for _, each in flight.unsubmitted()] == ["req_waited", "req_ran"]
    flight.step([1, 2, 3], ["of", "the", "dead"])
    assert sent(waited) == sent(ran) == b"<"
    flight.event(queued("req_ran", 1, boot=3))
    flight.step([1], ["new"])
    assert sent(ran) == b"<0:new " and flight.waiting == 1


def test_who_left_is_not_submitted_again() -> None:
    one = answer()
    flight = flying(one)
    one.stream.lost = "client_gone"
    assert flight.engine_gone() == [one]
    flight.drop(one)
    assert list(flight.unsubmitted()) == []


def test_an_end_between_two_engines_touches_no_number_of_the_new_one() -> None:
    old, new = answer("req_old"), answer("req_new")
    flight = flying(old)
    flight.event(queued("req_old", 5))
    flight.engine_gone()
    flight.add(new)
    flight.event(queued("req_new", 5, boot=3))
    flight.drop(old)
    flight.step([5], ["x"])
    assert sent(new) == b"<0:x " and flight.waiting == 1


def test_a_request_is_found_by_its_own_id_and_by_its_sequences() -> None:
    one, many = answer("req_a"), answer("req_b/0", "req_b/1")
    flight = flying(one, many)
    flight.event(finished("req_b/0", 0))
    assert flight.find("req_a") is one and flight.find("req_b") is many and flight.find("req_b/1") is many
    assert flight.find("req_c") is None
    flight.drop(many)
    assert flight.find("req_b") is None and flight.answers() == [one]


def test_a_second_end_of_a_sequence_changes_nothing() -> None:
    one = answer()
    flight = flying(one)
    flight.event(queued())
    flight.event(finished())
    before = sent(one)
    flight.event(finished(reason=FinishReason.ERROR))
    assert sent(one) == before and one.problem is None
