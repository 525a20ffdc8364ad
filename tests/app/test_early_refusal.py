"""Early refusals: what the engine last said of itself, and what was sent to it since."""

from __future__ import annotations

from typing import Any

from web_builders import answer, queued, scheduled, submit

from app.serving.answers import Answer
from app.serving.in_flight import InFlight
from app.serving.overload import Overload
from scheduler.engine.messages import Pressure

MS = 1_000_000
SECOND_MS = 1000


class Stage:
    """An Overload over real InFlight, on a clock that stands."""

    def __init__(self, **settings: Any) -> None:
        self.now = 0
        self.settings = {"max_num_queued_reqs": 2, "ttft_slo_ms": 100} | settings
        self.flight = InFlight(clock=lambda: self.now)
        self.overload = Overload(self.flight, lambda: self.settings, clock=lambda: self.now)

    def press(self, tokens: int = 0, **fields: Any) -> None:
        """The engine says: a millisecond a token, `tokens` before a newcomer."""
        defaults: dict[str, Any] = {"busy": True, "token_ns": MS, "places": 0, "place_ns": 0, "step_ns": 0, "safety": 1.0}
        self.overload.pressure = Pressure(tokens=tokens, **(defaults | fields))

    def fly(self, id: str) -> Answer:
        one = answer(id)
        self.flight.add(one)
        return one


def test_a_queue_as_long_as_it_may_be_is_full_before_anything_is_read() -> None:
    stage = Stage()
    for number in (1, 2):
        assert not stage.overload.full
        stage.fly(f"req_{number}")
        stage.flight.event(queued(f"req_{number}", number))
    assert stage.overload.full
    stage.flight.event(scheduled(1))
    assert not stage.overload.full


def test_before_the_first_engine_is_ready_nothing_is_full() -> None:
    stage = Stage()
    stage.settings.clear()
    assert not stage.overload.full


def test_without_a_word_of_pressure_nothing_is_shed() -> None:
    assert not Stage().overload.misses(0, 0.001, [10_000])


def test_what_would_come_after_its_bound_is_shed() -> None:
    stage = Stage()
    stage.press(tokens=90)
    assert not stage.overload.misses(0, None, [10])
    assert stage.overload.misses(0, None, [11])
    assert not stage.overload.misses(0, 101.0, [11]), "its own deadline goes before the setting"
    stage.now = 1 * MS
    assert stage.overload.misses(0, None, [10]), "the time since it was received counts"


def test_sequences_without_a_verdict_count_and_so_do_the_prompts_of_the_same_post() -> None:
    stage = Stage()
    stage.press(tokens=90)
    one = answer("req_a")
    one.tracks[0].submit = submit("req_a", prompt=b"\0" * 4 * 5)
    stage.flight.add(one)
    assert (stage.flight.undecided, stage.flight.undecided_tokens) == (1, 5)
    assert stage.overload.misses(0, None, [6]) and not stage.overload.misses(0, None, [5])
    assert not stage.overload.misses(0, None, [2, 2]) and stage.overload.misses(0, None, [2, 2, 2])
    stage.flight.event(queued("req_a", 1))
    assert (stage.flight.undecided, stage.flight.undecided_tokens) == (0, 0)
    assert not stage.overload.misses(0, None, [10])


def test_undecided_sequences_are_counted_once_however_they_end() -> None:
    stage = Stage()
    refused, dropped, again = stage.fly("req_r"), stage.fly("req_d"), stage.fly("req_q")
    stage.flight.event(queued("req_q", 1))
    stage.flight.engine_gone()
    stage.flight.event(queued("req_q", 1, boot=3))
    stage.flight.drop(dropped)
    stage.flight.drop(refused)
    stage.flight.drop(again)
    assert (stage.flight.undecided, stage.flight.undecided_tokens, stage.flight.waiting) == (0, 0, 0)


def test_an_idle_engine_sheds_nothing() -> None:
    stage = Stage()
    stage.press(busy=False)
    assert not stage.overload.misses(0, None, [10_000])


def test_retry_after_is_the_time_in_which_the_queue_drains_in_whole_seconds() -> None:
    stage = Stage()
    assert stage.overload.retry_after_s == 1
    for number in range(1, 41):
        stage.fly(f"req_{number}")
        stage.flight.event(queued(f"req_{number}", number))
    for number in range(1, 11):
        stage.flight.event(scheduled(number, at=number * 500 * MS))
    stage.now = 5_500 * MS
    assert stage.overload.retry_after_s == 15, "thirty wait, two leave a second"
    stage.now = 3_600_000 * MS
    assert stage.overload.retry_after_s == 60


def test_time_in_which_nobody_waited_says_nothing_of_the_drain() -> None:
    stage = Stage()
    for number in (1, 2):
        stage.fly(f"req_{number}")
        stage.flight.event(queued(f"req_{number}", number, at=0))
        stage.flight.event(scheduled(number, at=number * 100 * MS))
    hour = 3_600_000 * MS
    for number in range(3, 13):
        stage.fly(f"req_{number}")
        stage.flight.event(queued(f"req_{number}", number, at=hour))
    stage.now = hour + 100 * MS
    assert stage.overload.retry_after_s == 2, "ten wait, two left within the 0.3 s in which anybody waited"
