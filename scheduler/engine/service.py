"""EngineService: commands in, messages out, steps between. Knows the loop and an outbox; not where either lives.

It is the body of the engine process (server.py) and of the engine on a thread (local.py).
Invariant: each command is handled between two steps; each Patch and Hold is answered exactly once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from scheduler.core.events import EngineStarted, Event, StepCompleted
from scheduler.engine.build import build, request_of
from scheduler.engine.loop import EngineLoop, VersionConflict
from scheduler.engine.messages import (
    PROTOCOL,
    Abort,
    Events,
    Hello,
    Hold,
    Message,
    Patch,
    Ready,
    Reply,
    Shutdown,
    StepDone,
    Submit,
    pack_event,
)
from scheduler.engine.own_policies import OwnPolicy, blame, catalog_with
from scheduler.errors import ProtocolError, SettingsError
from scheduler.runners.base import Runner
from scheduler.settings import ModelSettings

HELD_TICK_S = 0.25


class EngineService:
    """One engine life. `put` sends a message; `wall` and `mono` read the two clocks, ns."""

    def __init__(
        self,
        put: Callable[[Message], None],
        *,
        wall: Callable[[], int] = time.time_ns,
        mono: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._put = put
        self._wall = wall
        self._mono = mono
        self._steps_allowed = 0
        self._observe_ns = 0
        self._stepped = False
        self.stopping = False
        self.loop: EngineLoop
        self._eos: tuple[int, ...] = ()
        self._own: Mapping[str, OwnPolicy] = {}

    def start(self, hello: Hello, model: ModelSettings, runner: Runner, own: Mapping[str, OwnPolicy] | None = None) -> None:
        """Build the loop and say Ready; raises ProtocolError on another version, SettingsError on a bad setting.

        own: the policies of the user, loaded by whoever owns this process.
        """
        if hello.protocol != PROTOCOL:
            raise ProtocolError(f"protocol {hello.protocol} is spoken, {PROTOCOL} understood")
        self._own = own or {}
        self.loop = build(hello.boot, hello.scheduler, model, runner, self._publish, catalog_with(self._own))
        self.loop.version = hello.version
        capacity = runner.capacity()
        self._eos = capacity.eos_token_ids
        settings = asdict(self.loop.settings)
        rows = [each.row() for each in self._own.values()]
        self._put(Ready(PROTOCOL, hello.boot, os.getpid(), settings, hello.version, asdict(capacity), rows))
        pool, now = self.loop.scheduler.pool, self._mono()
        started = self.loop.scheduler.record(
            EngineStarted,
            now,
            wall=self._wall(),
            mono=now,
            settings=self.loop.settings.as_pairs(),
            blocks_total=pool.total,
            block_size=pool.size,
            runner=model.runner,
            hardware=capacity.hardware,
            model=capacity.model,
        )
        self._publish([started], [], [])

    @property
    def idle(self) -> bool:
        """Nothing may be done until a command comes."""
        return self.loop.scheduler.idle or (self.loop.paused and not self._steps_allowed)

    @property
    def patience(self) -> float | None:
        """Seconds that an idle engine may wait for a command; a held one has time-outs to keep."""
        return HELD_TICK_S if self.loop.paused and not self.loop.scheduler.idle else None

    def step(self) -> bool:
        """One step if there is work and no hold; True when a step ran."""
        if self.idle:
            self.loop.expire()
            return False
        if self.loop.paused:
            self._steps_allowed -= 1
        self._stepped = False
        self.loop.step()
        return self._stepped

    def explain(self, error: BaseException) -> None:
        """Note on `error`, which ends this life, which of the user's policies it came from, if from any."""
        note = blame(error, self._own, self.loop.settings.policy)
        if note is not None:
            error.add_note(note)

    def handle(self, message: Any) -> None:
        """Carry out one command."""
        match message:
            case Submit():
                self.loop.submit(request_of(message, self._eos))
            case Abort():
                self.loop.abort(message.ids, message.detail)
            case Patch():
                self._patch(message)
            case Hold():
                self._hold(message)
            case Shutdown():
                self.loop.abort(list(self.loop.scheduler.requests), "shutdown")
                self.stopping = True
            case _:
                raise ProtocolError(f"unexpected {type(message).__name__}")

    def _patch(self, message: Patch) -> None:
        try:
            self.loop.change(message.changes, message.expected)
        except SettingsError as error:
            kind = "conflict" if isinstance(error, VersionConflict) else "invalid"
            self._reply(message.token, kind, error.message, error.param)
        else:
            self._reply(message.token)

    def _hold(self, message: Hold) -> None:
        if message.what not in ("pause", "step", "resume"):
            self._reply(message.token, "invalid", f"unknown hold {message.what!r}", "what")
            return
        self._steps_allowed = self._steps_allowed + 1 if message.what == "step" else 0
        self.loop.hold(message.what)
        self._reply(message.token)

    def _reply(self, token: int, error: str | None = None, text: str = "", param: str | None = None) -> None:
        loop = self.loop
        self._put(Reply(token, loop.version, asdict(loop.settings), loop.paused, error, text, param))

    def _publish(self, events: list[Event], numbers: list[int], texts: list[str]) -> None:
        """Record and send; what it costs is told with the next step."""
        began = self._mono()
        rows = [pack_event(event) for event in events]
        pressure = self.loop.scheduler.pressure()
        self._stepped = any(isinstance(event, StepCompleted) for event in events)
        if self._stepped or numbers:
            late = self.loop.clock.host_late_ns if self._stepped else 0
            self._put(StepDone(rows, numbers, texts, self._observe_ns, late, pressure))
            self._observe_ns = 0
        else:
            self._put(Events(rows, pressure))
        self._observe_ns += self._mono() - began
