"""The writer: one native thread, the one writing connection of the whole system. Knows no gevent, no HTTP, no scheduler.

Callers may be greenlets of a monkey-patched process, and the thread must be a real one, so whatever touches threads is
handed in: `spawn(function)` starts a native thread, `notify(function)` runs a callable where the callers live (called
from the writer's thread; at once in a test, through the hub's async watcher in the server), `new_queue()` makes a native
SimpleQueue, the thread's only thing to block on. What callers hand over lies in deques: append and popleft are atomic.

    accept(row, done)   a new request; done(None) once it is durable, done(error) if it cannot be
    refuse(row, …)      a request that was answered with an error at once
    end(…), amend(…)    what the web itself knows of a request: engine_crash and the like; status, text
    events(list)        core events of one message, in order
    job(work, done)     work(connection) in a transaction of its own, then done(result, None) or done(None, error);
                        a generator gets one transaction a step (keep each ≤ 10 ms), others go between

Group commit: all accepts that are there share a commit at once; events alone linger up to 4 ms for company.
Nothing is dropped for want of room: `full` tells the web to refuse instead. Failures: see scribe.py.
Invariant: done(None) comes after the commit that holds the row; an event is never written before its request's row, nor
a job run before what was handed over before it is written.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from app.store import database
from app.store.accepted import AcceptedRow, Amend, Reason, WebEnd
from app.store.errors import StoreBusy
from app.store.scribe import Done, Item, Job, JobDone, Scribe, Work
from scheduler.core.events import Event

MAX_BACKLOG = 50_000
LINGER_S = 0.004
RETRY_S = 0.5


class WakeQueue(Protocol):
    """What a native queue.SimpleQueue offers."""

    def put(self, item: None) -> None: ...
    def get(self, block: bool = True, timeout: float | None = None) -> None: ...
    def empty(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class WriterStats:
    """Counters for /metrics and pages. accepts, events, jobs: waiting; pending: refused by the database so far."""

    accepts: int
    events: int
    jobs: int
    pending: int
    open_requests: int
    commits: int
    errors: int
    lost: int
    orphans: int
    terminal_duplicates: int
    last_error: str | None


class Writer:
    """See the module. Made, `start`ed once, `close`d once."""

    def __init__(
        self,
        url: str,
        *,
        spawn: Callable[[Callable[[], None]], object],
        notify: Callable[[Callable[[], object]], object],
        new_queue: Callable[[], WakeQueue] = SimpleQueue,
    ) -> None:
        self.web_boot = 0
        self._boots = 0
        self._scribe = Scribe(database.writing(url))
        self._spawn = spawn
        self._notify = notify
        self._wake = new_queue()
        self._ended = new_queue()
        self._accepts: deque[tuple[AcceptedRow, Done]] = deque()
        self._events: deque[tuple[Item, int]] = deque()
        self._jobs: deque[Job] = deque()
        self._poked = False
        self._closing = False

    def start(self) -> None:
        """End what a crash left open, then start the thread. Raises what the database says; migrate before."""
        self.web_boot = self._boots = self._scribe.begin(time.time_ns(), time.monotonic_ns(), os.getpid())
        self._spawn(self._run)

    def next_boot(self) -> int:
        """The number for the next life of the engine: above every one in the records."""
        self._boots += 1
        return self._boots

    def accept(self, row: AcceptedRow, done: Done) -> None:
        """Make the row durable, then done(None)."""
        if self.full:
            why = "the writer is closed" if self._closing else "the backlog of the records is full"
            self._notify(partial(done, StoreBusy(why)))
            return
        self._accepts.append((row, done))
        self._wake.put(None)

    def refuse(self, row: AcceptedRow, status_code: int, detail: str, at: int) -> None:
        """A row that is rejected from the start. Nobody waits for it; a failure is counted."""
        self.accept(row, _nobody)
        self.end(row.id, "rejected", detail, at, status_code=status_code)

    def end(
        self,
        request_id: str,
        reason: Reason,
        detail: str | None,
        at: int,
        *,
        status_code: int | None = None,
        output_tokens: int | None = None,
    ) -> None:
        """End all unfinished sequences of a request in the web's name; one that has ended already stays as it is."""
        self._put([WebEnd(request_id, reason, detail, at, status_code, output_tokens)], 0)

    def amend(self, request_id: str, *, status_code: int | None = None, output_text: str | None = None) -> None:
        """Note the status that was answered, or the text of the answer (only where recording text was asked for)."""
        self._put([Amend(request_id, status_code, output_text)], 0)

    def events(self, events: Sequence[Event], host_late_ns: int = 0) -> None:
        """Core events of one message in order; `host_late_ns` of the step among them."""
        self._put(events, host_late_ns)

    def job(self, work: Work, done: JobDone) -> None:
        """Run `work(connection)` in a transaction; see the module for generators."""
        if self._closing:
            self._notify(partial(done, None, StoreBusy("the writer is closed")))
            return
        self._jobs.append(Job(work, done))
        self._wake.put(None)

    def close(self, timeout: float = 10.0) -> bool:
        """Write what is there and end the thread; False when it did not end in time. Blocks the calling thread."""
        self._closing = True
        self._wake.put(None)
        try:
            self._ended.get(timeout=timeout)
        except Empty:
            return False
        return True

    @property
    def full(self) -> bool:
        """True when new requests must be refused (503 storage_busy)."""
        waiting = len(self._accepts) + len(self._events) + len(self._scribe.pending)
        return self._closing or waiting > MAX_BACKLOG

    @property
    def failing(self) -> bool:
        """True while the database refuses what it is given: readiness should say so."""
        return len(self._scribe.pending) > 0

    def stats(self) -> WriterStats:
        """The counters now."""
        scribe = self._scribe
        return WriterStats(
            accepts=len(self._accepts),
            events=len(self._events),
            jobs=len(self._jobs),
            pending=len(scribe.pending),
            open_requests=scribe.fold.open,
            commits=scribe.commits,
            errors=scribe.errors,
            lost=scribe.lost,
            orphans=scribe.fold.orphans,
            terminal_duplicates=scribe.terminal_duplicates,
            last_error=scribe.last_error,
        )

    def _put(self, items: Sequence[Item], host_late_ns: int) -> None:
        self._events.extend((item, host_late_ns) for item in items)
        if not self._poked:  # events need no haste: one poke wakes the thread for all that follow
            self._poked = True
            self._wake.put(None)

    # ---- the thread

    def _run(self) -> None:
        try:
            while not (self._closing and self._idle):
                self._wait()
                self._cycle()
                if self._closing and self.failing:
                    break  # it was refused twice in this cycle, and nobody will bring better luck
        finally:
            self._closing = True
            self._scribe.hang_up()
            for _, done in _drain(self._accepts):
                self._notify(partial(done, StoreBusy("the writer is closed")))
            self._ended.put(None)

    @property
    def _idle(self) -> bool:
        return not (self._accepts or self._events or self._jobs)

    def _wait(self) -> None:
        if self._closing or self._jobs:
            return
        try:
            self._wake.get(timeout=RETRY_S if self.failing else None)
            if self._events and not self._accepts:
                self._wake.get(timeout=LINGER_S)  # cut short by an accept or a job, not by more events
        except Empty:
            return

    def _cycle(self) -> None:
        self._poked = False
        while not self._wake.empty():
            self._wake.get()
        job = self._jobs[0] if self._jobs else None  # looked at first: what was handed over before it is then written before it
        items = _drain(self._events)  # before the accepts: the accept of each is then among those drained now or earlier
        accepts = _drain(self._accepts)
        answers = self._scribe.write(accepts, items)
        for answer in answers:
            self._notify(answer)
        if job is not None:
            self._advance(job)

    def _advance(self, job: Job) -> None:
        for answer in self._scribe.advance(job):
            self._jobs.popleft()
            self._notify(answer)


def _nobody(_error: Exception | None) -> None:
    """Nobody waits: the scribe has counted the error."""


def _drain(items: deque[Any]) -> list[Any]:
    drained = []
    while items:
        drained.append(items.popleft())
    return drained
