"""EngineLife with a fake process and a fake clock: boots, restarts, resubmission, fencing, the watch for hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from web_builders import FakeSleep, step, step_done, submit

from app.supervisor import engine_life
from app.supervisor.engine_life import EngineLife, Listeners
from app.supervisor.pulse import FIRST_STEP_S, HANG_FACTOR, HANG_S
from scheduler.engine.messages import Events, Failed, Hello, Loading, Ready, Reply, Submit
from scheduler.errors import EngineGone


class FakeClient:
    """A process that does what the test says."""

    def __init__(self, on_message: Callable[[Any], None], on_gone: Callable[[], None]) -> None:
        self.say, self.die = on_message, on_gone
        self.hello: Hello | None = None
        self.got: list[Any] = []
        self.killed = False
        self.dead = False

    pid = 1

    def start(self, hello: Hello) -> None:
        self.hello = hello

    def ready(self, **settings: Any) -> None:
        assert self.hello is not None
        self.say(Ready(1, self.hello.boot, 1, {"max_num_seqs": 4, **settings}, self.hello.version, {"model": "m"}))

    def submit(self, message: Submit) -> None:
        if self.dead:
            raise EngineGone("dead")
        self.got.append(message)

    def abort(self, ids: list[str], detail: str) -> None:
        self.got.append((ids, detail))

    def patch(self, changes: dict[str, Any], expected: int | None = None, timeout: float = 5.0) -> Reply:
        assert self.hello is not None
        return Reply(1, self.hello.version + 1, {"max_num_seqs": 4, **changes}, False)

    def hold(self, what: str, timeout: float = 5.0) -> Reply:
        return Reply(1, 1, {}, what != "resume")

    def stop(self, timeout: float = 5.0) -> None:
        self.die()

    def kill(self) -> None:
        self.killed = True


@dataclass
class Stage:
    """A life and everything around it."""

    clock: FakeSleep = field(default_factory=FakeSleep)
    clients: list[FakeClient] = field(default_factory=list)
    statuses: list[tuple[str, str]] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    unfinished: int = 0
    again: list[Submit] = field(default_factory=list)

    def __post_init__(self) -> None:
        boots = count(2)
        listeners = Listeners(
            on_events=self.events.append,
            on_status=lambda status, text: self.statuses.append((status, text)),
            on_ready=lambda ready: None,
            on_gone=self._gone,
            work=lambda: self.unfinished,
        )
        self.life = EngineLife(
            self._client, {"policy": "sjf"}, {"runner": "null"}, lambda: next(boots), listeners,
            clock=self.clock, sleep=self.clock.sleep,
        )  # fmt: skip
        self.life._begin()

    def _client(self, on_message: Callable[[Any], None], on_gone: Callable[[], None]) -> FakeClient:
        self.clients.append(FakeClient(on_message, on_gone))
        return self.clients[-1]

    def _gone(self) -> Iterable[Submit]:
        again, self.again = self.again, []
        return again

    def die(self) -> None:
        """The present process dies; the restart has run when this returns."""
        self.clients[-1].die()
        for thread in threading.enumerate():
            if thread.name == "engine-restart":
                thread.join(5)


def test_a_life_is_greeted_with_its_boot_and_is_up_once_ready() -> None:
    stage = Stage()
    hello = stage.clients[0].hello
    assert hello is not None and (hello.boot, hello.scheduler, hello.model) == (2, {"policy": "sjf"}, {"runner": "null"})
    assert not stage.life.up
    stage.clients[0].say(Loading("reading weights", 1, 4))
    assert stage.statuses[-1] == ("loading", "reading weights (25 %)")
    stage.clients[0].ready()
    assert stage.life.up and stage.statuses[-1] == ("up", "")


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


def test_a_new_life_starts_with_the_settings_that_were_changed() -> None:
    stage = Stage()
    stage.clients[0].ready()
    assert stage.life.patch({"max_num_seqs": 9}).error is None and stage.life.status.version == 2
    stage.die()
    hello = stage.clients[1].hello
    assert hello is not None and hello.scheduler == {"policy": "sjf", "max_num_seqs": 9} and hello.version == 2


def test_an_engine_that_cannot_start_is_not_started_again() -> None:
    stage = Stage()
    stage.clients[0].say(Failed("no such file: weights", "model"))
    stage.die()
    assert stage.life.status.state == "failed" and "weights" in stage.life.status.text and len(stage.clients) == 1


def test_an_engine_that_dies_often_rests() -> None:
    stage = Stage()
    for _ in range(engine_life.CRASHES_ALLOWED):
        stage.clients[-1].ready()
        before = stage.clock.now
        stage.die()
    assert stage.clock.now - before >= engine_life.REST_S and len(stage.clients) == engine_life.CRASHES_ALLOWED + 1
    assert any("resting" in text for _, text in stage.statuses)


def test_an_engine_with_work_and_no_step_is_hung_and_an_idle_one_is_not() -> None:
    stage = Stage()
    stage.clients[0].ready()
    stage.clients[0].say(step_done([step()]))
    stage.clock.now += HANG_S * 10
    assert not stage.life.hung
    stage.unfinished = 1
    assert not stage.life.hung, "the work has only just come"
    stage.clock.now += HANG_S + 0.1
    assert stage.life.hung
    stage.life.hold("pause")
    assert not stage.life.hung, "a held engine does not step"


def test_long_steps_and_a_first_step_get_their_time() -> None:
    stage = Stage()
    stage.clients[0].ready()
    stage.unfinished = 1
    stage.clock.now += FIRST_STEP_S - 1
    assert not stage.life.hung
    stage.clients[0].say(step_done([step(started_at=0, ended_at=2_000_000_000)]))
    stage.clock.now += HANG_FACTOR * 2.0 - 0.1
    assert not stage.life.hung
    stage.clock.now += 0.2
    assert stage.life.hung


def test_the_watch_kills_what_hangs() -> None:
    stage = Stage(clock=FakeSleep(until=200))
    stage.clients[0].ready()
    stage.unfinished = 1
    with pytest.raises(TimeoutError):
        stage.life._watch()
    assert stage.clients[0].killed


def test_a_stopped_life_is_the_last_one() -> None:
    stage = Stage()
    stage.clients[0].ready()
    stage.life.stop()
    assert len(stage.clients) == 1
