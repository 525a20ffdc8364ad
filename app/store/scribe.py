"""The scribe: what the writer's thread does with what it was handed. One connection, no thread and no queue of its own.

A write that fails is tried once more on a new connection, after re-reading which accepts are there. Then accepts fail
to their callers, and the rest stays pending until the database takes it; a row that can never be stored (its own fault,
not the database's) is counted as lost and does not take its neighbours with it.
Invariant: an accept is answered None only after the commit that holds its row; pending rows keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from types import GeneratorType
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from app.store import ledger
from app.store.accepted import AcceptedRow, Amend, WebEnd
from app.store.errors import StoreError, StoreFailed
from app.store.fold import Batch, Fold
from scheduler.core.events import Event, StepCompleted

Done = Callable[[Exception | None], object]
JobDone = Callable[[Any, Exception | None], object]
Work = Callable[[Connection], Any]
Answer = Callable[[], object]
Item = Event | WebEnd | Amend


@dataclass(slots=True)
class Job:
    """Work in a transaction of its own; a generator is advanced one transaction a step."""

    work: Work
    done: JobDone
    rest: Generator[None, None, Any] | None = None


class Scribe:
    """See the module. Used by one thread at a time: `begin` by the starter, then the writer's thread alone."""

    def __init__(self, engine: Engine) -> None:
        self.fold = Fold(0, 0, 0, 0)
        self.pending = Batch()
        self.commits = 0
        self.errors = 0
        self.lost = 0
        self.terminal_duplicates = 0
        self.last_error: str | None = None
        self._engine = engine
        self._connection: Connection | None = None

    def begin(self, wall: int, mono: int, pid: int) -> int:
        """The number of this life of the web process; what an earlier one left open is ended."""
        with self._open().begin():
            boot = ledger.begin_life(self._open(), wall, mono, pid)
        self.fold = Fold(boot, wall, mono, pid)
        return boot

    def write(self, accepts: list[tuple[AcceptedRow, Done]], items: list[tuple[Item, int]]) -> list[Answer]:
        """Fold and commit; returns the answers to the accepts, ready to call."""
        for row, _ in accepts:
            self.fold.accepted(row)
        for item, host_late_ns in items:
            self._fold(item, host_late_ns)
        batch = self._merge()
        if not accepts and not len(batch):
            return []
        try:
            connection = self._open()
            with connection.begin():
                ledger.insert_accepts(connection, [row for row, _ in accepts])
                refused = ledger.apply(connection, batch)
        except Exception as error:  # whatever it was, the outcome is unknown: re-read and try again
            self._failed(error)
            return self._again(accepts, batch)
        self.commits += 1
        self.terminal_duplicates += refused
        return [partial(done, None) for _, done in accepts]

    def advance(self, job: Job) -> list[Answer]:
        """One slice of a job: no answer while there is more of it."""
        try:
            connection = self._open()
            with connection.begin():
                ended, result = self._slice(connection, job)
        except StoreError as error:  # the work's own refusal
            return [partial(job.done, None, error)]
        except Exception as error:  # it goes to whoever asked for the job
            self._failed(error)
            return [partial(job.done, None, error)]
        return [partial(job.done, result, None)] if ended else []

    def hang_up(self) -> None:
        """Close the connection; the next use opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except Exception as error:  # it is thrown away anyway
                self._note(error)

    # ---- the second try

    def _again(self, accepts: list[tuple[AcceptedRow, Done]], batch: Batch) -> list[Answer]:
        """Accepts one by one, so that a bad row fails alone; then the batch."""
        answers: list[Answer] = []
        broken: StoreFailed | None = None  # the database itself: no use asking it again for each of the others
        for row, done in accepts:
            failure = broken or self._accept_again(row)
            if failure is not None:
                broken = failure if isinstance(failure.__cause__, OperationalError) else None
                self.fold.forget(row.id)
                batch.updates.pop(row.id, None)
            answers.append(partial(done, failure))
        try:
            self._salvage(batch)
        except Exception as error:  # the database's fault, not a row's: keep them for later
            self._failed(error)
            self.pending = batch
        return answers

    def _accept_again(self, row: AcceptedRow) -> StoreFailed | None:
        try:
            connection = self._open()
            with connection.begin():
                if not ledger.is_there(connection, row):
                    ledger.insert_accepts(connection, [row])
        except Exception as error:  # it goes to whoever waits for the accept
            self._failed(error)
            failure = StoreFailed(f"the request could not be recorded: {_first_line(error)}")
            failure.__cause__ = error
            return failure
        return None

    def _salvage(self, batch: Batch) -> None:
        """The batch row by row: a row at fault is lost and counted, the database's own faults are raised."""
        connection = self._open()
        with connection.begin():
            lost = sum(not self._stored(connection, piece) for piece in ledger.pieces(batch))
        self.commits += 1
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

    def _fold(self, item: Item, host_late_ns: int) -> None:
        try:
            if isinstance(item, StepCompleted):
                self.fold.step(item, host_late_ns)
            else:
                self.fold.fold(item)
        except Exception as error:  # one bad event must not stop the records; counted, and readable as last_error
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

    def _merge(self) -> Batch:
        """What is pending and what was folded since, in order."""
        batch, newer = self.pending, self.fold.take()
        self.pending = Batch()
        for name in ("events", "terminals", "steps", "settings", "boots"):
            getattr(batch, name).extend(getattr(newer, name))
        for key, columns in newer.updates.items():
            batch.updates.setdefault(key, {}).update(columns)
        return batch

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _failed(self, error: BaseException) -> None:
        self._note(error)
        self.hang_up()

    def _note(self, error: BaseException) -> None:
        self.errors += 1
        self.last_error = _first_line(error)


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]
