"""EngineLife: one engine after another, each with its own boot number. Knows messages and processes, no request's content.

loading → up → (down → loading …) until `stop`. A life ends when its pair closes: the process died, or was killed because it
had work and took no step for max(10 s, 20 × its longest step). What must happen then is told to `on_gone`; the new life
begins at once, unless the engine has died often lately.
Invariant: messages of a life that is over are dropped; at most one process is spoken to.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from app.supervisor.pulse import Pulse
from scheduler.engine.messages import PROTOCOL, Events, Failed, Hello, Loading, Ready, Reply, StepDone, Submit
from scheduler.errors import EngineGone

log = logging.getLogger("batchscope")

CRASHES_ALLOWED = 3
CRASH_WINDOW_S = 60.0
REST_S = 30.0


class Client(Protocol):
    """What scheduler.engine.client.EngineClient offers."""

    @property
    def pid(self) -> int | None: ...
    def start(self, hello: Hello) -> None: ...
    def submit(self, message: Submit) -> None: ...
    def abort(self, ids: list[str], detail: str) -> None: ...
    def patch(self, changes: dict[str, Any], expected: int | None = None, timeout: float = 5.0) -> Reply: ...
    def hold(self, what: str, timeout: float = 5.0) -> Reply: ...
    def stop(self, timeout: float = 5.0) -> None: ...
    def kill(self) -> None: ...


MakeClient = Callable[[Callable[[Any], None], Callable[[], None]], Client]


@dataclass(frozen=True, slots=True)
class Listeners:
    """What a life reports. `on_ready` runs before anything is submitted to it; `work` counts what is unfinished."""

    on_events: Callable[[Events | StepDone], None]
    on_status: Callable[[str, str], None]
    on_ready: Callable[[Ready], None]
    on_gone: Callable[[], Iterable[Submit]]
    work: Callable[[], int]


@dataclass(slots=True)
class Status:
    """What is known of the present life. `state`: loading, up, down or failed."""

    state: str = "loading"
    text: str = "starting"
    boot: int = 0
    version: int = 1
    paused: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    capacity: dict[str, Any] = field(default_factory=dict)
    failure: Failed | None = None


class EngineLife:
    """See the module. `start`, then anything, then `stop`."""

    def __init__(
        self,
        make_client: MakeClient,
        scheduler: Mapping[str, Any],
        model: Mapping[str, Any],
        next_boot: Callable[[], int],
        listeners: Listeners,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.status = Status()
        self._make_client = make_client
        self._scheduler = dict(scheduler)
        self._model = dict(model)
        self._next_boot = next_boot
        self._tell = listeners
        self._clock = clock
        self._sleep = sleep
        self._client: Client | None = None
        self._stopping = False
        self._again: list[Submit] = []
        self._crashes: deque[float] = deque(maxlen=CRASHES_ALLOWED)
        self._pulse = Pulse(clock)

    # ---- life

    def start(self) -> None:
        """Begin the first life and the watch for hangs."""
        self._begin()
        threading.Thread(target=self._watch, name="engine-watch", daemon=True).start()

    def stop(self, timeout: float = 5.0) -> None:
        """End the engine; what is unfinished ends as `abort: shutdown`."""
        self._stopping = True
        if self._client is not None:
            self._client.stop(timeout)

    @property
    def pid(self) -> int | None:
        """The present engine's process id."""
        return None if self._client is None else self._client.pid

    @property
    def up(self) -> bool:
        """Does it take requests?"""
        return self.status.state == "up"

    def current(self) -> dict[str, Any]:
        """The scheduler settings in effect; empty before the first life is ready."""
        return dict(self.status.settings)

    # ---- what the web asks of it

    def submit(self, submits: Iterable[Submit]) -> None:
        """Send sequences. When the engine is gone this very moment they are sent to the next one by `on_gone`."""
        for submit in submits:
            self._try(partial(_submit, submit))

    def abort(self, ids: list[str], detail: str) -> bool:
        """Ask for the end of sequences; False when there is no engine to ask."""
        return bool(ids) and self._try(lambda client: client.abort(ids, detail))

    def patch(self, changes: Mapping[str, Any], expected: int | None = None) -> Reply:
        """Change settings; a later life starts with them too. Raises EngineGone."""
        reply = self._up_client().patch(dict(changes), expected)
        if reply.error is None:
            self._scheduler.update(changes)
            if "policy" in changes and "policy_params" not in changes:
                self._scheduler.pop("policy_params", None)
        self._take_reply(reply)
        return reply

    def hold(self, what: str) -> Reply:
        """ "pause", "step" or "resume". Raises EngineGone."""
        reply = self._up_client().hold(what)
        self._take_reply(reply)
        self._tell.on_status("paused" if self.status.paused else "up", "")
        return reply

    def kill(self) -> None:
        """End the process at once; a new life begins."""
        if self._client is not None:
            self._client.kill()

    # ---- inside

    def _begin(self) -> None:
        boot = self._next_boot()
        self.status = Status(
            boot=boot, version=self.status.version, settings=self.status.settings, capacity=self.status.capacity
        )
        self._tell.on_status("loading", "starting the engine")
        self._pulse = Pulse(self._clock)
        self._client = self._make_client(lambda message: self._message(boot, message), lambda: self._gone(boot))
        self._client.start(Hello(PROTOCOL, boot, self._scheduler, self._model, self.status.version))

    def _message(self, boot: int, message: Any) -> None:
        if boot != self.status.boot:
            return
        self._pulse.heard(message)
        match message:
            case Events() | StepDone():
                self._tell.on_events(message)
            case Loading():
                share = f" ({100 * message.done // message.total} %)" if message.total else ""
                self.status.text = message.text + share
                self._tell.on_status("loading", self.status.text)
            case Ready():
                self._ready(message)
            case Failed():
                self.status.failure = message
                self.status.text = message.message
                log.error("the engine failed: %s", message.message)

    def _ready(self, message: Ready) -> None:
        status = self.status
        status.settings, status.version, status.capacity = dict(message.settings), message.version, dict(message.capacity)
        self._tell.on_ready(message)
        status.state, status.text = "up", ""
        again, self._again = self._again, []
        self._tell.on_status("up", "")
        self.submit(again)

    def _gone(self, boot: int) -> None:
        """Called once at the end of each life, by its reader."""
        if boot != self.status.boot:
            return
        failure = self.status.failure
        self.status.state = "failed" if failure is not None and not self._pulse.stepped else "down"
        self._tell.on_status("down", failure.message if failure else "the engine died; a new one is starting")
        self._again += self._tell.on_gone()
        if self._stopping or self.status.state == "failed":
            return
        log.error("engine life %d ended; %d sequences go to the next one", boot, len(self._again))
        self._crashes.append(self._clock())
        threading.Thread(target=self._begin_again, name="engine-restart", daemon=True).start()

    def _begin_again(self) -> None:
        full = len(self._crashes) == CRASHES_ALLOWED
        if full and self._clock() - self._crashes[0] < CRASH_WINDOW_S:
            self.status.text = f"the engine died {CRASHES_ALLOWED} times within {CRASH_WINDOW_S:g} s; resting {REST_S:g} s"
            self._tell.on_status("down", self.status.text)
            self._sleep(REST_S)
        if not self._stopping:
            self._begin()

    def _watch(self) -> None:
        while not self._stopping:
            self._sleep(1.0)
            if self.hung:
                log.error("the engine has work and took no step for %.0f s: killed", self._pulse.silent_s)
                self.kill()

    @property
    def hung(self) -> bool:
        """It has work, is not held, and does not step."""
        if not self.up or self.status.paused:
            return False
        if not self._tell.work():
            self._pulse.heard()
        return self._pulse.hung

    def _try(self, send: Callable[[Client], None]) -> bool:
        if self._client is None or not self.up:
            return False
        try:
            send(self._client)
        except EngineGone:
            return False
        return True

    def _up_client(self) -> Client:
        if self._client is None or not self.up:
            raise EngineGone(f"the engine is {self.status.state}: {self.status.text}")
        return self._client

    def _take_reply(self, reply: Reply) -> None:
        self.status.settings, self.status.version, self.status.paused = dict(reply.settings), reply.version, reply.paused


def _submit(submit: Submit, client: Client) -> None:
    client.submit(submit)
