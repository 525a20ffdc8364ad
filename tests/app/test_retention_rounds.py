"""The server's own retention: only where it is set, once an hour, piece by piece, and whatever goes wrong it comes again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from web_builders import FakeSleep

from app import retention
from app.retention import EVERY_S, FIRST_S, Retention, rule_of
from app.settings import ServerSettings
from app.store.errors import StoreBusy
from app.store.retention import Rule

DAY_S = 86_400
AT = "2026-11-30T14:03:22.118000Z"


def told(done: bool, **removed: int) -> dict[str, Any]:
    return {"removed": removed, "reached": AT, "done": done, "bytes": 1}


def keeper(job: Callable[[Any], Any], clock: FakeSleep, **settings: Any) -> Retention:
    return Retention(ServerSettings(**settings), job, sleep=clock.sleep, over=lambda: False)


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({}, None),
        ({"retain_days": 7}, Rule(7 * DAY_S, None, cause="retention")),
        ({"retain_gb": 1.5}, Rule(None, 1_500_000_000, cause="retention")),
        ({"retain_days": 0.5, "retain_gb": 2}, Rule(DAY_S / 2, 2_000_000_000, cause="retention")),
    ],
)
def test_the_settings_say_what_is_kept(settings: dict[str, float], rule: Rule | None) -> None:
    assert rule_of(ServerSettings(**settings)) == rule  # type: ignore[arg-type]


def test_without_a_setting_nothing_is_ever_asked_for() -> None:
    clock = FakeSleep()
    keeper(lambda work: pytest.fail("a job"), clock).keep()
    assert clock.now == 0


def test_a_round_goes_on_where_the_last_piece_ended() -> None:
    pieces = [told(False, requests=3, steps=9), told(False, requests=2), told(True, runs=1)]
    asked: list[Any] = []

    def job(work: Any) -> Any:
        asked.append(work.keywords["since"])
        return pieces[len(asked) - 1]

    assert keeper(job, FakeSleep(), retain_days=7).round() == {"requests": 5, "steps": 9, "runs": 1}
    assert asked[0] is None and asked[1] == asked[2] == 1_796_047_402_118_000_000


def test_it_comes_once_an_hour_even_after_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    clock, rounds = FakeSleep(until=FIRST_S + 3.5 * EVERY_S), list[float]()

    def job(work: Any) -> Any:
        rounds.append(clock.now)
        if len(rounds) == 2:
            raise StoreBusy("the writer is closed")
        return told(True)

    with pytest.raises(TimeoutError):
        keeper(job, clock, retain_gb=1).keep()
    assert rounds == [FIRST_S + n * EVERY_S for n in range(4)]
    assert [record.message for record in caplog.records] == ["retention: the writer is closed"]


def test_it_rests_between_pieces_so_that_others_get_their_turn() -> None:
    clock, pieces = FakeSleep(), iter([told(False), told(False), told(True)])
    keeper(lambda work: next(pieces), clock, retain_days=1).round()
    assert clock.now == 2 * retention.REST_S
