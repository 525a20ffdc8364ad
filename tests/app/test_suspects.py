"""Suspicion and conviction: alone, twice, within ten minutes; and who has the engine while one is tried."""

from __future__ import annotations

from web_builders import answer, finished, first_token, queued, scheduled, submit

from app.serving.answers import Answer
from app.serving.in_flight import InFlight
from app.serving.suspects import KEPT_NS, MOST_KEPT, Suspects, fingerprint
from app.serving.trials import Trials
from scheduler.core.request import SamplingParams


class Bench:
    """Answers in flight with prompts of their own, and the engine's lives."""

    def __init__(self, *ids: str) -> None:
        self.now = 0
        self.flight = InFlight(clock=lambda: 0)
        self.suspects = Suspects(lambda: self.now)
        self.trials = Trials(self.flight, self.suspects)
        self.answers = {id: self.add(id) for id in ids}

    def add(self, id: str) -> Answer:
        one = answer(id)
        one.tracks[0].submit = submit(id, prompt=id.encode().ljust(8))
        self.flight.add(one)
        return one

    def begin(self) -> list[str]:
        return [each.id for each in self.trials.begin(track for track, _ in self.flight.unsubmitted())]

    def run(self, *ids: str) -> None:
        for number, id in enumerate(ids, 1):
            self.flight.event(queued(id, number))
            self.flight.event(scheduled(number))

    def die(self) -> bytes | None:
        poison = self.trials.over()
        for each in self.flight.engine_gone():
            self.flight.drop(each)
        return poison

    def print(self, id: str) -> bytes:
        return self.answers[id].tracks[0].fingerprint


def test_a_fingerprint_is_of_ids_and_parameters_and_outlives_the_submit() -> None:
    same = [fingerprint(submit(id)) for id in ("a", "b")]
    assert same[0] == same[1] != fingerprint(submit(prompt=b"\x02\0\0\0"))
    assert same[0] != fingerprint(submit(params=SamplingParams(max_tokens=3)))
    one = answer().tracks[0]
    before = one.fingerprint
    one.had_token()
    assert one.submit is None and one.fingerprint == before == same[0]


def test_what_dies_in_company_is_suspected_and_what_dies_alone_after_that_is_poison() -> None:
    suspects = Suspects(lambda: 0)
    assert suspects.died([b"a", b"b"]) is None and suspects.suspected(b"a") and suspects.suspected(b"b")
    assert suspects.died([b"a", b"b"]) is None, "as often as may be: nobody can tell which"
    assert suspects.died([b"c"]) is None, "alone, but for the first time"
    assert suspects.died([b"a"]) == b"a" and suspects.poisonous == 1 and not suspects.suspected(b"a")
    suspects.cleared(b"b")
    assert suspects.died([b"b"]) is None


def test_suspicion_and_refusal_end_after_ten_minutes_and_are_bounded() -> None:
    now = [0]
    suspects = Suspects(lambda: now[0])
    one = submit()
    seen = fingerprint(one)
    suspects.died([seen])
    now[0] = KEPT_NS
    assert suspects.died([seen]) is None, "too long ago"
    assert suspects.died([seen]) == seen and suspects.refuses([submit("other", prompt=b""), one])
    now[0] *= 2
    assert not suspects.refuses([one]) and suspects.poisonous == 0
    suspects.died([n.to_bytes(4) for n in range(MOST_KEPT + 9)])
    assert len(suspects._suspected) == MOST_KEPT and not suspects.suspected((0).to_bytes(4))


def test_each_suspect_has_the_engine_alone_until_its_first_token_and_then_all_the_others_follow() -> None:
    bench = Bench("req_p", "req_q", "req_w")
    assert bench.begin() == ["req_p", "req_q", "req_w"]
    bench.run("req_p", "req_q")
    assert bench.die() is None
    assert bench.begin() == ["req_p"] and bench.trials.on
    bench.add("req_new")
    bench.trials.hold(["req_new"])
    assert bench.trials.holds(["req_q"]) and bench.trials.holds(["req_new"]) and not bench.trials.holds(["req_p"])
    bench.run("req_p")
    assert list(bench.trials.go_on()) == []
    bench.flight.event(first_token(1))
    assert [each.id for each in bench.trials.go_on()] == ["req_q"] and not bench.suspects.suspected(bench.print("req_p"))
    bench.flight.event(finished("req_q", 2))
    assert [each.id for each in bench.trials.go_on()] == ["req_w", "req_new"] and not bench.trials.on
    assert not bench.trials.holds(["req_w"]) and list(bench.trials.go_on()) == []


def test_who_is_tried_and_dies_is_poison_and_the_next_engine_gets_the_others() -> None:
    bench = Bench("req_p", "req_q", "req_w")
    bench.begin()
    bench.run("req_p", "req_q")
    bench.die()
    bench.begin()
    bench.run("req_p")
    assert bench.die() == bench.print("req_p")
    bench.flight.drop(bench.answers["req_p"])
    assert bench.begin() == ["req_q"], "still a suspect"


def test_of_a_like_of_one_that_was_cleared_no_second_trial_is_made() -> None:
    bench = Bench("req_p", "req_q")
    for id in ("req_p", "req_q"):
        bench.answers[id].tracks[0].submit = submit(id)
    bench.begin()
    bench.run("req_p", "req_q")
    bench.die()
    assert bench.begin() == ["req_p"]
    bench.run("req_p")
    bench.flight.event(first_token(1))
    assert [each.id for each in bench.trials.go_on()] == ["req_q"] and not bench.trials.on


def test_an_engine_that_died_before_it_was_given_anything_accuses_nobody() -> None:
    bench = Bench("req_p")
    assert [bench.die() for _ in range(3)] == [None] * 3 and not bench.suspects.any


def test_a_request_that_is_never_even_queued_is_found_too() -> None:
    bench = Bench("req_p", "req_q")
    assert bench.begin() == ["req_p", "req_q"] and bench.die() is None
    assert bench.begin() == ["req_p"] and bench.die() == bench.print("req_p")
