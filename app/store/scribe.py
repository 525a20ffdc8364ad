"""The scribe: what the writer's thread does with what it was handed. One connection, no thread and no queue of its own.

A write that fails is tried once more on a new connection, after re-reading which accepts are there (not so when a lock or
a full disk refused it: then nothing was written, and the caller would wait twice). Then accepts fail to their callers, and the
rest stays pending until the database takes it; a row that can never be stored (its own fault, not the database's) is
counted as lost and does not take its neighbours with it.
Invariant: an accept is answered None only after the commit that holds its row; pending rows keep their order; nothing is
written to another file than the one that was opened at the start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from types import GeneratorType
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from app.store import ledger
from app.store.accepted import AcceptedRow
from app.store.batch import Batch
from app.store.errors import StoreError, StoreFailed, StoreFull, StoreLocked, StoreLost
from app.store.fold import Fold, Item
from app.store.place import Place
from app.store.refusal import first_line, refused

Done = Callable[[Exception | None], object]
JobDone = Callable[[Any, Exception | None], object]
Work = Callable[[Connection], Any]
Answer = Callable[[], object]
Message = tuple[Sequence[Item], int]  # what was handed over at once, host_late_ns of the step in it
HOPELESS = (StoreLocked, StoreFull, StoreLost)  # the outcome is known, nothing was written, and a second try is no better


@dataclass(slots=True)
class Job:
    """Work in a transaction of its own; a generator is advanced one transaction a step."""

    work: Work
    done: JobDone
    rest: Generator[None, None, Any] | None = None


class Scribe:
    """See the module. Used by one thread at a time: `begin` by the starter, then the writer's thread alone."""

    def __init__(self, engine: Engine, place: Place | None = None) -> None:
        self.fold = Fold(0, 0, 0, 0)
        self.pending = Batch()
        self.behind = 0  # rows that are pending: asked for each request, and not to be counted each time
        self.commits = 0
        self.errors = 0
        self.lost = 0
        self.terminal_duplicates = 0
        self.last_error: str | None = None
        self._engine = engine
        self._place = place
        self._lost: StoreLost | None = None
        self._refused: StoreFailed | None = None
        self._doubtful: list[AcceptedRow] = []  # refused to their callers, and perhaps there all the same
        self._connection: Connection | None = None

    @property
    def trouble(self) -> StoreFailed | None:
        """Why nothing more should be accepted now; None while the database takes what it is given."""
        return self._lost or self._refused

    def look(self) -> None:
        """Is the file that we write to still the one at its path?"""
        if self._place is not None:
            self._lost = self._place.missing()

    def begin(self, wall: int, mono: int, pid: int) -> int:
        """The number of this life of the web process; what an earlier one left open is ended."""
        connection = self._open()
        with connection.begin():
            boot = ledger.begin_life(connection, wall, mono, pid)
        self._written()
        self.fold = Fold(boot, wall, mono, pid)
        return boot

    def write(self, accepts: list[tuple[AcceptedRow, Done]], messages: list[Message]) -> list[Answer]:
        """Fold and commit; returns the answers to the accepts, ready to call."""
        for row, _ in accepts:
            self.fold.accepted(row)
        for items, host_late_ns in messages:
            self.fold.fold(items, host_late_ns, self._unfoldable)
        batch, self.pending, self.behind = self.pending, Batch(), 0
        batch.extend(self.fold.take())
        if not accepts and not len(batch) and not self._doubtful:
            return []
        try:
            connection = self._open()
            with connection.begin():
                ledger.withdraw(connection, self._doubtful)
                second = ledger.write(connection, [row for row, _ in accepts], batch)
        except Exception as error:  # whatever it was, the outcome is unknown: re-read and try again
            self._failed(error)
            return self._again(accepts, batch, refused(error))
        self._written()
        self._doubtful = []
        self.terminal_duplicates += second
        return [partial(done, None) for _, done in accepts]

    def refuse(self, accepts: deque[tuple[AcceptedRow, Done]]) -> list[Answer]:
        """Give up on accepts that are still to be written, while there is trouble; empties `accepts`."""
        answers: list[Answer] = []
        while self.trouble is not None and accepts:
            row, done = accepts.popleft()
            self.fold.forget(row.id)
            answers.append(partial(done, self.trouble))
        return answers

    def advance(self, job: Job) -> list[Answer]:
        """One slice of a job: no answer while there is more of it."""
        try:
            connection = self._open()
            with connection.begin():
                ended, result = self._slice(connection, job)
        except StoreError as error:  # the work's own refusal
            return [partial(job.done, None, error)]
        except OperationalError as error:
            self._failed(error)
            return [partial(job.done, None, refused(error))]
        except Exception as error:  # it goes to whoever asked for the job
            self._failed(error)
            return [partial(job.done, None, error)]
        return [partial(job.done, result, None)] if ended else []

    def hang_up(self) -> None:
        """Close the connection; the next use opens another."""
        connection, self._connection = self._connection, None
        if self._place is not None:
            self._place.release()
        if connection is not None:
            try:
                connection.close()
            except Exception as error:  # it is thrown away anyway
                self._note(error)

    # ---- the second try

    def _again(self, accepts: list[tuple[AcceptedRow, Done]], batch: Batch, why: StoreFailed) -> list[Answer]:
        """Accepts one by one, so that a bad row fails alone; then the batch."""
        answers: list[Answer] = []
        broken: StoreFailed | None = why if isinstance(why, HOPELESS) else None  # no use asking again for each of the others
        failed: set[str] = set()
        for row, done in accepts:
            failure = broken or self._accept_again(row)
            if failure is not None:
                broken = failure if broken or isinstance(failure.__cause__, OperationalError) else None
                failed.add(row.id)
            answers.append(partial(done, failure))
        self._forget(failed, batch)
        if not isinstance(why, HOPELESS):
            self._doubtful += [row for row, _ in accepts if row.id in failed]
        if isinstance(broken, HOPELESS):
            self._keep(batch, broken)
            return answers
        try:
            self._salvage(batch)
        except Exception as error:  # the database's fault, not a row's: keep them for later
            self._failed(error)
            self._keep(batch, refused(error))
        return answers

    def _keep(self, batch: Batch, why: StoreFailed) -> None:
        if len(batch):
            self.pending, self.behind, self._refused = batch, len(batch), why

    def _forget(self, ids: set[str], batch: Batch) -> None:
        """These were never accepted: nothing is kept of them."""
        for request_id in ids:
            self.fold.forget(request_id)
        if ids:
            batch.forget(ids)

    def _accept_again(self, row: AcceptedRow) -> StoreFailed | None:
        try:
            connection = self._open()
            with connection.begin():
                if not ledger.is_there(connection, row):
                    ledger.insert_accepts(connection, [row])
        except Exception as error:  # it goes to whoever waits for the accept
            self._failed(error)
            return refused(error)
        return None

    def _salvage(self, batch: Batch) -> None:
        """The batch row by row: a row at fault is lost and counted, the database's own faults are raised."""
        connection = self._open()
        with connection.begin():
            lost = sum(not self._stored(connection, piece) for piece in ledger.pieces(batch))
        self._written()
        self.lost += lost

    def _stored(self, connection: Connection, piece: Batch) -> bool:
        try:
            with connection.begin_nested():
                ledger.apply(connection, piece)
        except OperationalError:
            raise
        except Exception as error:  # counted, and readable as last_error
            self._note(error)
            return False
        return True

    # ---- pieces

    def _written(self) -> None:
        """A commit went through: the database takes what it is given."""
        self.commits += 1
        self._refused = None
        if self._place is not None:
            self._place.note()

    def _unfoldable(self, error: Exception) -> None:
        """One bad event must not stop the records: counted, and readable as last_error."""
        self._note(error)
        self.lost += 1

    def _slice(self, connection: Connection, job: Job) -> tuple[bool, object]:
        if job.rest is None:
            result = job.work(connection)
            if not isinstance(result, GeneratorType):
                return True, result
            job.rest = result
        try:
            next(job.rest)
        except StopIteration as end:  # caught here, so that what it wrote last is committed
            return True, end.value
        return False, None

    def _open(self) -> Connection:
        if self._connection is None:
            self.look()
            if self._lost is not None:  # opening would make an empty file in its place
                raise self._lost
            self._connection = self._engine.connect()
        return self._connection

    def _failed(self, error: BaseException) -> None:
        self._note(error)
        self.hang_up()

    def _note(self, error: BaseException) -> None:
        self.errors += 1
        self.last_error = first_line(error)
