"""Manners: what one dashboard may say, and how often. (What reaches a library is tested end to end as well.)"""

from __future__ import annotations

import pytest

from app.live_manners import ACKS_A_SECOND, JOIN_S, PONGS_A_SECOND, WORDS_A_SECOND, Manners, lawful_resync

RESYNC = '42/live,["resync",{"boot":1,"last":2}]'


class Guest:
    """A connection that has joined, with time in hand."""

    def __init__(self, *, join: bool = True) -> None:
        self.now = 0.0
        self.manners = Manners(lambda: self.now)
        if join:
            assert self.manners.hears("40/live,") == "pass"
            assert not self.manners.says('40/live,{"sid":"x"}')

    def says(self, message: str, a_second: float, seconds: float) -> set[str]:
        """The verdicts on saying it so often for so long."""
        found = set()
        for _ in range(int(a_second * seconds)):
            self.now += 1 / a_second
            found.add(self.manners.hears(message))
        return found


@pytest.mark.parametrize(("message", "rate"), [(RESYNC, WORDS_A_SECOND), ("43/live,1[]", ACKS_A_SECOND), ("3", PONGS_A_SECOND)])
def test_as_often_as_allowed_may_go_on_for_ever_and_more_often_may_not(message: str, rate: float) -> None:
    assert Guest().says(message, rate * 0.99, 100) == {"pass"}
    assert "end" in Guest().says(message, rate * 1.5, 10)


def test_acknowledgements_do_not_use_up_words() -> None:
    guest = Guest()
    assert guest.says("43/live,1[]", ACKS_A_SECOND * 0.99, 10) | guest.says(RESYNC, WORDS_A_SECOND * 0.99, 10) == {"pass"}


def test_who_does_not_join_in_time_is_not_waited_for_and_who_joined_is_waited_for_for_ever() -> None:
    guest = Guest(join=False)
    assert guest.manners.patience == JOIN_S
    guest.now = JOIN_S - 1
    assert guest.manners.patience == pytest.approx(1)
    guest.manners.says('40/live,{"sid":"x"}')
    assert guest.manners.patience is None


@pytest.mark.parametrize("message", [RESYNC, "43/live,1[]", "41/live,", '42/live,["resync",{}]'])
def test_before_it_joined_it_has_nothing_to_say(message: str) -> None:
    assert Guest(join=False).manners.hears(message) == "end"


@pytest.mark.parametrize("message", ["40", "40/live", "40/live,", '40/live,{"token":"x"}', "40/other,"])
def test_it_may_join_once(message: str) -> None:
    guest = Guest(join=False)
    assert guest.manners.hears(message) == "pass"
    assert guest.manners.hears(message) == "end"


def test_a_refusal_is_the_last_word() -> None:
    assert Guest(join=False).manners.says('44/live,{"message":"full"}')


def test_unknown_words_are_let_fall() -> None:
    assert Guest().manners.hears('42/live,["hello",1]') == "drop"


@pytest.mark.parametrize(
    ("message", "lawful"),
    [
        ({"boot": 1, "last": 0}, True), ({"boot": None, "last": None}, True), ({}, True),
        ({"boot": 1, "last": 2, "x": 3}, True),
        ({"boot": 1}, False), ({"boot": 1, "last": None}, False), ({"boot": True, "last": 1}, False), ([], False),
        (None, False),
        ({"boot": 1, "last": -1}, False), ({"boot": 1, "last": 1 << 53}, False), ({"boot": "1", "last": 1}, False),
    ],
)  # fmt: skip
def test_a_resync_names_two_whole_numbers_or_nothing(message: object, lawful: bool) -> None:
    assert lawful_resync(message) is lawful
