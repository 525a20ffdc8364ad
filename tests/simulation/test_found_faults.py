"""Faults that seeds found in the product, each as its shortest test; the seeds themselves are kept in test_simulation.py."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from records import make_row
from simulation.disk import DOUBTFUL, FULL, Disk
from simulation.world import World
from web_builders import FakeSleep, answer, finished, queued, submit

from app.api.errors import Problem
from app.serving.in_flight import InFlight
from app.store import database
from app.store.scribe import Scribe
from app.supervisor.engine_life import EngineLife
from app.supervisor.engine_ties import Listeners
from scheduler.engine.messages import Events, Hello, Ready, Reply
from scheduler.errors import EngineGone

REFUSED = Problem(503, "no room", None, "storage_full")


def test_no_client_is_told_finished_before_the_records_have_it() -> None:
    waiting: list[Callable[[], object]] = []
    flight, one = InFlight(when_recorded=waiting.append), answer()
    flight.add(one)
    flight.event(queued())
    flight.event(finished(number=1))
    assert not one.over and one.unfinished == [] and flight.sequences == 0
    for done in waiting:
        done()
    assert one.over and one.stream.sent.endswith(b">")  # type: ignore[attr-defined]


def test_an_answer_that_ended_before_its_row_was_refused_is_refused() -> None:
    flight, one = InFlight(), answer(streamed=False)
    flight.add(one)
    flight.event(queued())
    flight.event(finished(number=1))
    one.commit(REFUSED)
    assert one.problem is REFUSED and one.verdict and not one.open


@pytest.mark.parametrize("fault", [DOUBTFUL, FULL])
def test_a_row_that_was_refused_is_not_kept_even_if_its_commit_had_gone_through(fault: str) -> None:
    disk, told = Disk(World(0)), list[Any]()
    engine = database.writing(disk.url)
    disk.attach(engine)
    scribe = Scribe(engine)
    scribe.begin(0, 0, 1)
    disk.break_down(fault, 1 if fault == FULL else -1)
    for tell in scribe.write([(make_row("req_a"), told.append)], []):
        tell()
    disk.repair()
    for tell in scribe.write([(make_row("req_b"), told.append)], []):
        tell()
    assert told[0] is not None and told[1] is None
    assert disk.rows("SELECT id FROM requests") == [("req_b",)]
    scribe.hang_up()
    disk.close()


class _Client:
    """An engine that is there and does not answer."""

    pid = 1

    def __init__(self, on_message: Callable[[Any], None], on_gone: Callable[[], None]) -> None:
        self.say, self.die, self.answers = on_message, on_gone, True

    def start(self, hello: Hello) -> None:
        self.say(Ready(1, hello.boot, 1, {}, 1, {}))

    def hold(self, what: str, timeout: float = 5.0) -> Reply:
        if not self.answers:
            raise EngineGone("no answer")
        return Reply(1, 1, {}, what != "resume")

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


class _Stage:
    def __init__(self) -> None:
        self.clients: list[_Client] = []
        self.heard: list[Any] = []
        self.later: list[Callable[[], None]] = []
        boots, clock = count(2), FakeSleep()
        listeners = Listeners(
            on_events=self.heard.append,
            on_status=lambda status, text: None,
            on_ready=lambda ready: None,
            on_gone=lambda detail: None,
            resubmit=lambda: [submit()],
            work=lambda: 1,
        )
        self.life = EngineLife(
            self._client, {}, {}, lambda: next(boots), listeners, clock=clock, sleep=clock.sleep,
            spawn=lambda run, name: self.later.append(run),
        )  # fmt: skip
        self.clock = clock
        self.life.start()

    def _client(self, on_message: Callable[[Any], None], on_gone: Callable[[], None]) -> _Client:
        self.clients.append(_Client(on_message, on_gone))
        return self.clients[-1]


def test_between_two_lives_nobody_is_heard() -> None:
    stage = _Stage()
    stage.clients[0].die()
    stage.clients[0].say(Events([]))
    stage.clients[0].die()
    assert stage.heard == [] and len(stage.later) == 2  # the watch, and one new life


def test_an_engine_that_does_not_answer_is_not_believed_to_be_held() -> None:
    stage = _Stage()
    stage.life.hold("pause")
    stage.clock.now += 1000
    assert not stage.life.watch.hung
    stage.clients[0].answers = False
    with pytest.raises(EngineGone):
        stage.life.hold("resume")
    assert not stage.life.watch.hung, "it has its time"
    stage.clock.now += 1000
    assert stage.life.watch.hung
