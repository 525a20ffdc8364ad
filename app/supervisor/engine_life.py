"""EngineLife: one engine after another, each with its own boot number. Knows messages and processes, no request's content.

loading → up → (down → up …) until `stop`. A life ends when its pair closes: the process died, or was killed because it
had work and took no step for max(10 s, 20 × its longest step). What must happen then is told to `on_gone`; the new life
begins at once, unless the engine has died often lately; once it is up it gets what `resubmit` says is still wanted.
Invariant: messages of a life that is over are dropped; at most one process is spoken to; a sequence that is in flight
when a life comes up is submitted to it, whenever it arrived.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import methodcaller
from typing import Any

from app.supervisor.breaker import CRASH_WINDOW_S, CRASHES_ALLOWED, Breaker
from app.supervisor.engine_ties import Client, Listeners, MakeClient, Status
from app.supervisor.hang_watch import HangWatch
from app.supervisor.pulse import HANG_S
from scheduler.engine.messages import PROTOCOL, Events, Failed, Hello, Loading, Ready, Reply, StepDone, Submit
from scheduler.errors import BatchscopeError, EngineGone

log = logging.getLogger("batchscope")

STOPPED = "shutdown: the server was stopped"  # the last status of all: no life comes after it, unlike after every other end
RETRY_S = 2.0  # when a client may ask again while a new life is on its way


def spawn_thread(run: Callable[[], None], name: str) -> None:
    """A thread of its own (a greenlet, where the process is patched)."""
    threading.Thread(target=run, name=name, daemon=True).start()


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
        policies: str = "",
        hang_s: float = HANG_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        spawn: Callable[[Callable[[], None], str], None] = spawn_thread,
    ) -> None:
        self.status = Status()
        self._make_client = make_client
        self._scheduler = dict(scheduler)
        self._model = dict(model)
        self._policies = policies
        self._next_boot = next_boot
        self._tell = listeners
        self._clock = clock
        self._sleep = sleep
        self._spawn = spawn
        self._client: Client | None = None
        self._heard_boot = 0  # the life that is listened to; 0 between two
        self._hung_boot = 0  # the last one that was killed because it hung
        self._last_words = ""  # in brackets, of the last life that said why it ended
        self._stopping = False
        self._served = False
        self._rest_until = 0.0
        self._breaker = Breaker(clock)
        self.watch = HangWatch(lambda: self.status, listeners.work, hang_s, clock, sleep)

    # ---- life

    def start(self) -> None:
        """Begin the first life and the watch for hangs."""
        self._begin()
        self._spawn(partial(self.watch.keep, lambda: self._stopping, self._kill_hung), "engine-watch")

    def stop(self, timeout: float) -> None:
        """End the engine, by force after `timeout` seconds; what is unfinished ends as `abort: shutdown`."""
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

    @property
    def retry_s(self) -> float:
        """Seconds until it is worth asking again."""
        return max(RETRY_S, self._rest_until - self._clock())

    def current(self) -> dict[str, Any]:
        """The scheduler settings in effect; empty before the first life is ready."""
        return dict(self.status.settings)

    # ---- what the web asks of it

    def submit(self, submits: Iterable[Submit]) -> None:
        """Send sequences. When the engine is gone this very moment they go to the next one, as `resubmit` tells."""
        for submit in submits:
            self._try(methodcaller("submit", submit))

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
        self.status.answered(reply)
        return reply

    def hold(self, what: str) -> Reply:
        """ "pause", "step" or "resume". Raises EngineGone."""
        try:
            reply = self._up_client().hold(what)
        except EngineGone:
            self.status.paused = False  # it may be held, or frozen: from here on what it does decides, else nobody ever would
            raise
        self.status.answered(reply)
        self._tell.on_status("paused" if self.status.paused else "up", "")
        return reply

    def kill(self) -> None:
        """End the process at once; a new life begins."""
        if self._client is not None:
            self._client.kill()

    # ---- inside

    def _begin(self) -> None:
        """A new process. After a death the engine counts as down until the new life is up."""
        boot, old = self._next_boot(), self.status
        state, text = ("down", self._died()) if old.boot else ("loading", "starting the engine")
        self._heard_boot = boot
        self.status = old.next(boot, state, text)
        self._tell.on_status(state, text)
        self.watch.begin()
        self._client = self._make_client(lambda message: self._message(boot, message), lambda: self._gone(boot))
        self._client.start(Hello(PROTOCOL, boot, self._scheduler, self._model, self.status.version, self._policies))

    def _died(self) -> str:
        return f"the engine died{self._last_words}; a new one is starting"

    def _message(self, boot: int, message: Any) -> None:
        if boot != self._heard_boot:
            return
        self.watch.heard(message)
        match message:
            case Events() | StepDone():
                self._tell.on_events(message)
            case Loading():
                share = f" ({100 * message.done // message.total} %)" if message.total else ""
                self.status.text = message.text + share
                self._tell.on_status(self.status.state, self.status.text)
            case Ready():
                self._ready(message)
            case Failed():
                self.status.failure = message
                self.status.text = message.message
                if self._served:  # who starts the first life says why it cannot
                    log.error("the engine failed: %s", message.message)

    def _ready(self, message: Ready) -> None:
        status = self.status
        status.ready(message)
        self._tell.on_ready(message)
        status.state, status.text, self._served = "up", "", True
        self._tell.on_status("up", "")
        self.submit(self._tell.resubmit())

    def _gone(self, boot: int) -> None:
        """Called once at the end of each life, by its reader."""
        status = self.status
        if boot != self._heard_boot:
            return
        self._heard_boot = 0
        failure = status.failure
        status.state = "failed" if failure is not None and not self._served else "down"
        if self._stopping:
            status.text = STOPPED
            self._tell.on_status("down", STOPPED)
            return  # who stops it ends what is unfinished
        self._last_words = f" ({failure.message})" if failure else ""
        status.text = failure.message if failure else self._died()
        self._tell.on_status("down", status.text)
        explained = self._tell.on_gone("step_hang" if self._hung_boot == boot else "engine_crash")
        if status.state == "failed":
            return
        log.error("engine life %d ended", boot)
        self._breaker.died()
        if explained:
            self._breaker.explained()
        self._spawn(self._begin_again, "engine-restart")

    def _begin_again(self) -> None:
        while not self._stopping:
            self._rest()
            if self._stopping:
                return
            try:
                self._begin()
                return
            except (OSError, BatchscopeError) as error:  # no process, descriptor or number to be had just now
                log.error("no new engine: %s", error)
                self._breaker.died()

    def _rest(self) -> None:
        rest = self._breaker.rest_s
        if rest:
            self._rest_until = self._clock() + rest
            often = f"the engine died {CRASHES_ALLOWED} times within {CRASH_WINDOW_S:g} s{self._last_words}"
            self.status.text = f"{often}; resting {rest:g} s"
            log.error("%s", self.status.text)
            self._tell.on_status("down", self.status.text)
            self._sleep(rest)

    def _kill_hung(self) -> None:
        self._hung_boot = self._heard_boot
        self.kill()

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
