"""The writer: one native thread, the one writing connection of the whole system. Knows no gevent, no HTTP, no scheduler.

Callers may be greenlets of a monkey-patched process, and the thread must be a real one, so whatever touches threads is
handed in: `spawn(function)` starts a native thread, `notify(function)` runs a callable where the callers live (called
from the writer's thread; at once in a test, through the hub's async watcher in the server), `new_queue()` makes a native
SimpleQueue, the thread's only thing to block on. What callers hand over lies in deques: append and popleft are atomic.

    accept(row, done)   a new request; done(None) once it is durable, done(error) if it cannot be
    refuse(row, …)      a request that was answered with an error at once
    end(…), amend(…)    what the web itself knows of a request: engine_crash and the like; status, text
    events(list)        core events of one message, in order
    after(done)         done() once all that was handed over before is durable, or the database has refused it
    job(work, done)     work(connection) in a transaction of its own, then done(result, None) or done(None, error);
                        a generator gets one transaction a step (keep each ≤ 10 ms), others go between

Group commit: all accepts that are there share a commit at once; events linger up to 4 ms for company, and
steps alone up to 100: nobody waits for them, and a transaction costs the web process as much as fifty tokens do.
Nothing is dropped for want of room: `full` tells the web to refuse instead, `overflowing` to let the engine wait. While
the database refuses what it is given (`trouble`), everything is tried again twice a second.
Invariant: done(None) comes after the commit that holds the row; an event is never written before its request's row, nor
a job run before what was handed over before it is written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue

from sqlalchemy.exc import DBAPIError

from app.store import database
from app.store.accepted import AcceptedRow, Amend, Reason, WebEnd
from app.store.backlog import Backlog, WakeQueue, drain
from app.store.errors import StoreBusy, StoreError
from app.store.life_numbers import LifeNumbers
from app.store.place import Place
from app.store.refusal import refused
from app.store.scribe import Done, Job, JobDone, Scribe, Work
from scheduler.core.events import Event

MAX_BACKLOG = 50_000  # rows that wait
LINGER_S = 0.004
STEPS_S = 0.1
RETRY_S = 0.5
PATIENCE_S = 1.0  # who came during a try that took longer, and failed, does not wait for another
LOOK_S = 2.0  # how often it is looked whether the file is still there


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
        wall: Callable[[], int] = time.time_ns,
        mono: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.web_boot = 0
        self._numbers = LifeNumbers()
        path = database.file_of(url)
        self._scribe = Scribe(database.writing(url), None if path is None else Place(path))
        self._spawn = spawn
        self._notify = notify
        self._wall = wall
        self._mono = mono
        self._backlog = Backlog(new_queue())
        self._ended = new_queue()
        self._closing = False
        self._looked_at = 0

    def start(self) -> None:
        """End what a crash left open, then start the thread. Raises StoreFailed; migrate before."""
        try:
            self.web_boot = self._scribe.begin(self._wall(), self._mono(), os.getpid())
        except DBAPIError as error:
            raise refused(error) from error
        self._numbers.begin(self.web_boot)
        for answer in self._scribe.advance(Job(self._numbers.move, self._numbers.moved)):
            answer()
        self._spawn(self._run)

    def next_boot(self) -> int:
        """The number for the next life of the engine: above every one that ever was. Raises StoreBusy: none to be had now."""
        if self._numbers.must_move():
            self.job(self._numbers.move, self._numbers.moved)
        return self._numbers.next()

    def accept(self, row: AcceptedRow, done: Done) -> None:
        """Make the row durable, then done(None)."""
        if self._closing or self.full:
            self._notify(partial(done, self.trouble))
            return
        self._backlog.accept(row, done)

    def refuse(self, row: AcceptedRow, status_code: int, detail: str, at: int) -> None:
        """A row that is rejected from the start, where there is room for it. Nobody waits for it; a failure is counted."""
        if self.trouble is not None:
            return
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
        self._backlog.put([WebEnd(request_id, reason, detail, at, status_code, output_tokens)], 0)

    def amend(self, request_id: str, *, status_code: int | None = None, output_text: str | None = None) -> None:
        """Note the status that was answered, or the text of the answer (only where recording text was asked for)."""
        self._backlog.put([Amend(request_id, status_code, output_text)], 0)

    def events(self, events: Sequence[Event], host_late_ns: int = 0) -> None:
        """Core events of one message in order; `host_late_ns` of the step among them."""
        self._backlog.put(events, host_late_ns)

    def after(self, done: Callable[[], object]) -> None:
        """Call `done` once what was handed over before is durable. At once while the database refuses what it is given: the
        records catch up later, and nobody should wait for a disk."""
        if self._closing or self.failing:
            self._notify(done)
            return
        self._backlog.mark(done)

    def job(self, work: Work, done: JobDone) -> None:
        """Run `work(connection)` in a transaction; see the module for generators."""
        if self._closing:
            self._notify(partial(done, None, StoreBusy("the writer is closed")))
            return
        self._backlog.ask(Job(work, done))

    def close(self, timeout: float = 10.0) -> bool:
        """Write what is there and end the thread; False when it did not end in time. Blocks the calling thread."""
        self._closing = True
        self._backlog.wake()
        try:
            self._ended.get(timeout=timeout)
        except Empty:
            return False
        return True

    @property
    def trouble(self) -> StoreError | None:
        """Why a new request would be refused now."""
        if self._closing:
            return StoreBusy("the writer is closed")
        return self._scribe.trouble or (StoreBusy("the backlog of the records is full") if self.full else None)

    @property
    def full(self) -> bool:
        """True when more waits to be written than should."""
        return self._backlog.rows + self._scribe.behind > MAX_BACKLOG

    @property
    def overflowing(self) -> bool:
        """True when even what was accepted brings too much: its source should wait."""
        return not self._closing and self._behind > 2 * MAX_BACKLOG

    @property
    def failing(self) -> bool:
        """True while the database refuses what it is given: readiness should say so."""
        return self._scribe.trouble is not None

    @property
    def _behind(self) -> int:
        return self._backlog.rows + self._scribe.behind

    def stats(self) -> WriterStats:
        """The counters now."""
        scribe, backlog = self._scribe, self._backlog
        return WriterStats(
            accepts=len(backlog.accepts),
            events=backlog.events,
            jobs=len(backlog.jobs),
            pending=scribe.behind,
            open_requests=scribe.fold.open,
            commits=scribe.commits,
            errors=scribe.errors,
            lost=scribe.lost,
            orphans=scribe.fold.orphans,
            terminal_duplicates=scribe.terminal_duplicates,
            last_error=scribe.last_error,
        )

    # ---- the thread

    def _run(self) -> None:
        try:
            while not (self._closing and self._backlog.empty):
                self._wait()
                self._cycle()
                if self._closing and self._scribe.behind:
                    break  # it was refused twice in this cycle, and nobody will bring better luck
        finally:
            self._closing = True
            if not self.failing:
                self._scribe.advance(Job(self._numbers.settle, _nothing))
            self._scribe.hang_up()
            for _, done in drain(self._backlog.accepts):
                self._notify(partial(done, StoreBusy("the writer is closed")))
            for mark in drain(self._backlog.marks):
                self._notify(mark)
            self._ended.put(None)

    def _wait(self) -> None:
        backlog = self._backlog
        if self.failing:
            self._rest()
            return
        idle = not (self._closing or backlog.jobs or backlog.more)
        if idle and backlog.wait(LOOK_S) and backlog.messages:
            self._linger(STEPS_S, lambda: backlog.pressing or backlog.urgent)
            if backlog.pressing:
                self._linger(LINGER_S, lambda: backlog.urgent)

    def _rest(self) -> None:
        """Until the next try: whoever brings more meanwhile does not hasten it, only a close does."""
        self._linger(RETRY_S, lambda: False)

    def _linger(self, seconds: float, enough: Callable[[], bool]) -> None:
        end = self._mono() + round(seconds * 1e9)
        while not (self._closing or enough()) and (left := end - self._mono()) > 0:
            self._backlog.wait(left / 1e9)

    def _cycle(self) -> None:
        self._look()
        taken = self._backlog.take()
        began = self._mono()
        answers = self._scribe.write(taken.accepts, taken.messages)
        if self._mono() - began > PATIENCE_S * 1e9:
            answers += self._scribe.refuse(self._backlog.accepts)
        for answer in (*answers, *taken.marks):
            self._notify(answer)
        if taken.job is not None:
            self._advance(taken.job)

    def _look(self) -> None:
        now = self._mono()
        if now - self._looked_at >= LOOK_S * 1e9 or self.failing:
            self._looked_at = now
            self._scribe.look()

    def _advance(self, job: Job) -> None:
        for answer in self._scribe.advance(job):
            self._backlog.job_ended()
            self._notify(answer)


def _nobody(_error: Exception | None) -> None:
    """Nobody waits: the scribe has counted the error."""


def _nothing(_result: None, _error: Exception | None) -> None:
    """What could not be settled stays ahead, and costs the next life some numbers."""
