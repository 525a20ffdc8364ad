"""Native threads beside the greenlets: a pool for work that would hold the hub, and a way back in.

Knows nothing of what it runs. The process is patched, so `threading.Thread` is a greenlet and `queue.SimpleQueue` blocks only
the greenlet: whoever needs a true thread (the writer, readers of the database, the tokenizer) takes it from here.
Invariant: a callable given to `Inbox.post` from any thread runs in a greenlet of the hub, in the order of posting.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import gevent
from gevent import monkey
from gevent.event import AsyncResult
from gevent.hub import get_hub
from gevent.threadpool import ThreadPool

TURN_S = 0.005
P = ParamSpec("P")
T = TypeVar("T")


def spawn(function: Callable[..., object], *args: object) -> None:
    """Run `function` on a native thread of its own; it ends with the process at the latest."""
    monkey.get_original("_thread", "start_new_thread")(function, args)


def new_queue() -> Any:
    """An unbounded queue.SimpleQueue that native threads can block on; `put` never blocks, so greenlets may call it."""
    return monkey.get_original("queue", "SimpleQueue")()


def wait_for(begin: Callable[[Callable[[Any, Exception | None], object]], object]) -> Any:
    """Call `begin(done)` and sleep green until a greenlet calls `done(result, error)`; the result, or the error raised."""
    came: AsyncResult = AsyncResult()

    def done(result: Any, error: Exception | None) -> None:
        if error is None:
            came.set(result)
        else:
            came.set_exception(error)

    begin(done)
    return came.get()


class Pool:
    """A bounded pool of native threads; `run` waits green."""

    def __init__(self, size: int) -> None:
        self._pool = ThreadPool(size)

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`function(*args)` on a thread of the pool; the calling greenlet sleeps meanwhile; exceptions come back."""
        result, error = self._pool.apply(_outcome, (function, args, kwargs))
        if error is not None:
            raise error
        value: T = result
        return value

    def close(self) -> None:
        """Wait for what runs and end the threads."""
        self._pool.kill()


def _outcome(function: Callable[..., T], args: Any, kwargs: Any) -> tuple[T | None, BaseException | None]:
    """The result or the error, as a value: gevent would print an error's traceback before it hands it on."""
    try:
        return function(*args, **kwargs), None
    except BaseException as error:  # it is raised again where the call was made
        return None, error


class Breath:
    """Called between pieces of work that may be endless: lets the other greenlets run once the last time is TURN_S ago.

    Yielding after each piece would hold a reader that is behind to one piece a round of the hub, however much it lacks; and
    one that has slept since the last piece, for want of another, has let them run already. `rounds` counts the hub's.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = gevent.sleep,
        rounds: Callable[[], int] = lambda: int(get_hub().loop.iteration),
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._rounds = rounds
        self._round = rounds()
        self._since = clock()

    def __call__(self) -> None:
        """Perhaps sleep for a round."""
        if (seen := self._rounds()) != self._round:
            self._round, self._since = seen, self._clock()
        elif self._clock() - self._since > TURN_S:
            self._sleep(0)
            self._round, self._since = self._rounds(), self._clock()


class Inbox:
    """Callables from native threads into the hub's greenlets, through one async watcher."""

    def __init__(self) -> None:
        self._posted: collections.deque[Callable[[], object]] = collections.deque()
        self._watcher = get_hub().loop.async_()
        self._busy = False
        self._watcher.start(self._wake)

    def post(self, function: Callable[[], object]) -> None:
        """Have `function` called in a greenlet soon; safe from any thread."""
        self._posted.append(function)
        self._watcher.send()

    def close(self) -> None:
        """Stop listening; what is posted later is never run."""
        self._watcher.stop()
        self._watcher.close()

    def _wake(self) -> None:
        if not self._busy:  # one greenlet at a time, else two could overtake each other
            self._busy = True
            gevent.spawn(self._drain)

    def _drain(self) -> None:
        try:
            while self._posted:
                self._posted.popleft()()
        finally:
            self._busy = False
            if self._posted:
                self._wake()
