"""An EngineLife on a stage: a fake process, a fake clock, and what its listeners heard."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from web_builders import FakeSleep

from app.supervisor.engine_life import EngineLife
from app.supervisor.engine_ties import Listeners
from scheduler.engine.messages import Hello, Ready, Reply, Submit
from scheduler.errors import EngineGone


class FakeClient:
    """A process that does what the test says."""

    def __init__(self, on_message: Callable[[Any], None], on_gone: Callable[[], None]) -> None:
        self.say, self.die = on_message, on_gone
        self.hello: Hello | None = None
        self.got: list[Any] = []
        self.killed = False
        self.dead = False
        self.cannot_start = False

    pid = 1

    def start(self, hello: Hello) -> None:
        self.hello = hello
        if self.cannot_start:
            raise BlockingIOError("no more processes")

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
    no_process: int = 0
    gone: list[int] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    explained: bool = False
    again: list[Submit] = field(default_factory=list)

    def __post_init__(self) -> None:
        boots = count(2)
        listeners = Listeners(
            on_events=self.events.append,
            on_status=lambda status, text: self.statuses.append((status, text)),
            on_ready=lambda ready: None,
            on_gone=self._gone,
            resubmit=lambda: self.again,
            work=lambda: self.unfinished,
        )
        self.life = EngineLife(
            self._client, {"policy": "sjf"}, {"runner": "null"}, lambda: next(boots), listeners,
            clock=self.clock, sleep=self.clock.sleep,
        )  # fmt: skip
        self.life._begin()

    def _gone(self, detail: str) -> bool:
        self.gone.append(self.life.status.boot)
        self.details.append(detail)
        return self.explained

    def _client(self, on_message: Callable[[Any], None], on_gone: Callable[[], None]) -> FakeClient:
        self.clients.append(FakeClient(on_message, on_gone))
        self.clients[-1].cannot_start = self.no_process > 0
        self.no_process = max(0, self.no_process - 1)
        return self.clients[-1]

    def die(self) -> None:
        """The present process dies; the restart has run when this returns."""
        self.clients[-1].die()
        for thread in threading.enumerate():
            if thread.name == "engine-restart":
                thread.join(5)
