"""The watch for hangs, over a life with a fake process and a fake clock: who is killed, and who gets more time."""

from __future__ import annotations

import pytest
from engine_stage import Stage
from web_builders import FakeSleep, step, step_done

from app.supervisor.pulse import FIRST_STEP_S, HANG_FACTOR, HANG_S, LOADING_FACTOR
from scheduler.engine.messages import Events, Loading


def keep(stage: Stage) -> None:
    """The watch as the life starts it."""
    stage.life.watch.keep(lambda: stage.life._stopping, stage.life._kill_hung)


def test_an_engine_with_work_and_no_step_is_hung_and_an_idle_one_is_not() -> None:
    stage = Stage()
    stage.clients[0].ready()
    stage.clients[0].say(step_done([step()]))
    stage.clock.now += HANG_S * 10
    assert not stage.life.watch.hung
    stage.unfinished = 1
    assert not stage.life.watch.hung, "the work has only just come"
    stage.clock.now += HANG_S + 0.1
    assert stage.life.watch.hung
    stage.life.hold("pause")
    assert not stage.life.watch.hung, "a held engine does not step"


def test_long_steps_and_a_first_step_get_their_time() -> None:
    stage = Stage()
    stage.clients[0].ready()
    stage.unfinished = 1
    stage.clock.now += FIRST_STEP_S - 1
    assert not stage.life.watch.hung
    stage.clients[0].say(step_done([step(started_at=0, ended_at=2_000_000_000)]))
    stage.clock.now += HANG_FACTOR * 2.0 - 0.1
    assert not stage.life.watch.hung
    stage.clock.now += 0.2
    assert stage.life.watch.hung


def test_a_hold_however_long_is_no_silence_afterwards() -> None:
    stage = Stage()
    stage.clients[0].ready()
    stage.clients[0].say(step_done([step()]))
    stage.unfinished = 1
    stage.life.hold("pause")
    stage.clock.now += HANG_S * 10
    assert not stage.life.watch.hung
    stage.life.hold("resume")
    assert not stage.life.watch.hung


def test_an_engine_that_answers_and_does_not_step_is_hung() -> None:
    stage = Stage()
    stage.clients[0].ready()
    stage.clients[0].say(step_done([step()]))
    stage.unfinished = 1
    for _ in range(4):
        stage.clock.now += HANG_S / 3
        stage.clients[0].say(Events([[0]]))
    assert stage.life.watch.hung


def test_a_life_that_says_nothing_while_it_loads_is_stuck() -> None:
    stage = Stage()
    stage.clock.now += LOADING_FACTOR * HANG_S - 1
    stage.clients[0].say(Loading("reading weights", 1, 4))
    stage.clock.now += LOADING_FACTOR * HANG_S - 1
    assert not stage.life.watch.hung
    stage.clock.now += 2
    assert stage.life.watch.hung


def test_when_it_was_us_who_stood_still_nobody_is_killed() -> None:
    stage = Stage(clock=FakeSleep(until=HANG_S * 3))
    stage.clients[0].ready()
    stage.clients[0].say(step_done([step()]))
    stage.unfinished = 1
    frozen = stage.clock.sleep

    def frozen_once(seconds: float) -> None:
        stage.life.watch._sleep = frozen
        frozen(seconds)
        stage.clock.now += HANG_S * 1.5
        stage.life._stopping = True

    stage.life.watch._sleep = frozen_once
    keep(stage)
    assert not stage.clients[0].killed


def test_the_watch_kills_what_hangs() -> None:
    stage = Stage(clock=FakeSleep(until=200))
    stage.clients[0].ready()
    stage.unfinished = 1
    with pytest.raises(TimeoutError):
        keep(stage)
    assert stage.clients[0].killed
    stage.die()
    stage.clients[1].ready()
    stage.die()
    assert stage.details == ["step_hang", "engine_crash"], "each death is told as what it was"
