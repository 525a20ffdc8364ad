"""EngineLife with a fake process and a fake clock: boots, restarts, resubmission, fencing."""

from __future__ import annotations

import pytest
from engine_stage import Stage
from web_builders import submit

from app.supervisor import breaker, engine_life
from scheduler.engine.messages import Events, Failed, Loading, Ready
from scheduler.errors import EngineGone


def test_a_life_is_greeted_with_its_boot_and_is_up_once_ready() -> None:
    stage = Stage()
    hello = stage.clients[0].hello
    assert hello is not None and (hello.boot, hello.scheduler, hello.model) == (2, {"policy": "sjf"}, {"runner": "null"})
    assert not stage.life.up
    stage.clients[0].say(Loading("reading weights", 1, 4))
    assert stage.statuses[-1] == ("loading", "reading weights (25 %)")
    stage.clients[0].ready()
    assert stage.life.up and stage.statuses[-1] == ("up", "")


def test_why_a_life_ended_is_told_until_the_next_one_is_up_and_while_it_rests() -> None:
    stage = Stage()
    why = "RuntimeError: x, raised by your policy 'mine' (mine.py, line 3)"
    for life in range(breaker.CRASHES_ALLOWED):
        stage.clients[-1].ready()
        stage.clients[-1].say(Failed(why))
        stage.die()
        assert stage.life.status.state == "down" and why in stage.life.status.text, f"after life {life}"
    assert any("resting" in text and why in text for _, text in stage.statuses)
    stage.clients[-1].ready()
    assert stage.life.up and stage.life.status.text == ""


def test_policies_of_ones_own_are_asked_for_in_the_greeting_and_known_once_ready() -> None:
    stage = Stage()
    stage.life._policies = "mine"
    stage.die()
    assert stage.clients[-1].hello.policies == "mine"  # type: ignore[union-attr]
    row = {"name": "sjf", "file": "a.py", "sha256": "00"}
    stage.clients[-1].say(Ready(1, 3, 1, {"policy": "sjf"}, 1, {}, [row]))
    assert stage.life.status.own_policy == row
    stage.clients[-1].say(Ready(1, 3, 1, {"policy": "fcfs"}, 1, {}, [row]))
    assert stage.life.status.own_policy is None


def test_nothing_is_sent_to_an_engine_that_is_not_up() -> None:
    stage = Stage()
    stage.life.submit([submit()])
    assert stage.clients[0].got == [] and not stage.life.abort(["x"], "operator")
    with pytest.raises(EngineGone):
        stage.life.patch({"policy": "fcfs"})


def test_a_dead_engine_is_replaced_and_gets_what_had_no_token() -> None:
    stage = Stage()
    stage.clients[0].ready()
    stage.again = [submit("req_a", resubmitted=True)]
    stage.die()
    assert (
        len(stage.clients) == 2 and not stage.life.up and ("down", "the engine died; a new one is starting") in stage.statuses
    )
    hello = stage.clients[1].hello
    assert hello is not None and hello.boot == 3
    stage.clients[1].ready()
    assert [message.id for message in stage.clients[1].got] == ["req_a"]


def test_messages_and_the_end_of_an_older_life_are_dropped() -> None:
    stage = Stage()
    stage.clients[0].ready()
    stage.die()
    stage.clients[0].say(Events([[0]]))
    stage.clients[0].die()
    assert stage.events == [] and len(stage.clients) == 2


def test_a_submit_that_meets_a_dying_engine_is_no_error() -> None:
    stage = Stage()
    stage.clients[0].ready()
    stage.clients[0].dead = True
    stage.life.submit([submit()])
    assert stage.clients[0].got == [] and stage.life.up, "what was lost is sent by the next life; see resubmit"


def test_a_new_life_starts_with_the_settings_that_were_changed() -> None:
    stage = Stage()
    stage.clients[0].ready()
    assert stage.life.patch({"max_num_seqs": 9}).error is None and stage.life.status.version == 2
    stage.die()
    hello = stage.clients[1].hello
    assert hello is not None and hello.scheduler == {"policy": "sjf", "max_num_seqs": 9} and hello.version == 2


def test_from_a_death_to_the_next_life_the_engine_is_down_and_not_loading() -> None:
    stage = Stage()
    stage.clients[0].ready()
    told = len(stage.statuses)
    stage.die()
    stage.clients[1].say(Loading("reading weights", 1, 4))
    assert stage.life.status.state == "down" and stage.life.retry_s > 0
    stage.clients[1].ready()
    assert [status for status, _ in stage.statuses[told:]] == ["down", "down", "down", "up"]
    assert ("down", "reading weights (25 %)") in stage.statuses


def test_an_end_that_was_asked_for_is_no_crash() -> None:
    stage = Stage()
    stage.clients[0].ready()
    stage.life.stop(5.0)
    assert stage.gone == [] and stage.statuses[-1] == ("down", engine_life.STOPPED)
    assert stage.life.status.text.startswith("shutdown"), "whoever asks hears the same as whoever is told"


def test_a_later_life_that_fails_to_start_is_a_death_like_others() -> None:
    stage = Stage()
    stage.clients[0].ready()
    stage.die()
    stage.clients[1].say(Failed("no memory", None))
    stage.die()
    assert stage.life.status.state == "down" and len(stage.clients) == 3


def test_a_life_that_was_up_and_fails_in_its_first_step_is_replaced() -> None:
    stage = Stage()
    stage.clients[0].ready()
    stage.clients[0].say(Failed("RuntimeError: in a step", None))
    stage.die()
    assert stage.life.status.state == "down" and len(stage.clients) == 2 and stage.gone == [2]


def test_a_process_that_cannot_be_made_is_tried_again_after_a_rest() -> None:
    stage = Stage()
    stage.clients[0].ready()
    stage.no_process = 4
    stage.die()
    assert stage.no_process == 0 and len(stage.clients) == 6 and stage.clock.now >= 2 * breaker.REST_S
    stage.clients[-1].ready()
    assert stage.life.up


def test_what_is_in_flight_when_a_life_comes_up_is_submitted_whenever_it_came() -> None:
    stage = Stage()
    stage.clients[0].ready()
    stage.die()
    stage.life.submit([submit("req_lost_on_the_way")])
    stage.again = [submit("req_waited"), submit("req_lost_on_the_way")]
    stage.clients[1].ready()
    assert [message.id for message in stage.clients[1].got] == ["req_waited", "req_lost_on_the_way"]


def test_who_asks_while_it_rests_is_told_when_to_come_back() -> None:
    stage = Stage()
    asked: list[float] = []
    rest = stage.clock.sleep
    stage.life._sleep = lambda seconds: (asked.append(stage.life.retry_s), rest(seconds))[1]
    for _ in range(breaker.CRASHES_ALLOWED):
        stage.clients[-1].ready()
        stage.die()
    assert asked == [breaker.REST_S]


def test_an_engine_that_cannot_start_is_not_started_again(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.clients[0].say(Failed("no such file: weights", "model"))
    stage.die()
    assert stage.life.status.state == "failed" and "weights" in stage.life.status.text and len(stage.clients) == 1
    assert caplog.records == [], "who starts it says why it ends: once"


def test_an_engine_that_dies_often_rests() -> None:
    stage = Stage()
    for _ in range(breaker.CRASHES_ALLOWED):
        stage.clients[-1].ready()
        before = stage.clock.now
        stage.die()
    assert stage.clock.now - before >= breaker.REST_S and len(stage.clients) == breaker.CRASHES_ALLOWED + 1
    assert any("resting" in text for _, text in stage.statuses)


def test_deaths_whose_cause_is_known_and_shut_out_call_for_no_rest() -> None:
    stage = Stage(explained=True)
    for _ in range(2 * breaker.CRASHES_ALLOWED):
        stage.clients[-1].ready()
        stage.die()
    assert stage.clock.now == 0.0


def test_without_a_number_for_it_no_life_begins_until_there_is_one() -> None:
    stage = Stage()
    stage.clients[0].ready()
    taken, refusals = stage.life._next_boot, [EngineGone("no number"), None]

    def next_boot() -> int:
        if (refusal := refusals.pop(0)) is not None:
            raise refusal
        return taken()

    stage.life._next_boot = next_boot
    stage.die()
    assert refusals == [] and len(stage.clients) == 2


def test_a_stopped_life_is_the_last_one() -> None:
    stage = Stage()
    stage.clients[0].ready()
    stage.life.stop(5.0)
    assert len(stage.clients) == 1
