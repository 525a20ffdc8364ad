"""Acceptance: the moment a POST becomes ours, and the ways it is given up. Joins records, engine and flight; knows no HTTP.

Invariant: every answer that was begun ends in the records, through the engine's RequestFinished or through `writer.end`;
nothing stays with the engine that nobody waits for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from msgspec import structs

from app.api.errors import Problem
from app.serving.answers import Answer
from app.serving.in_flight import InFlight
from app.store.accepted import AcceptedRow, Reason
from app.store.writer import Writer
from app.supervisor.engine_life import EngineLife
from scheduler.engine.messages import Submit

SAMPLES_PER_S = 10  # rows of refused POSTs that name no run
SECOND = 1_000_000_000


class Acceptance:
    """`storage_problem` words a refusal of the records, `crash_problem` an engine's death, `timeout_problem` a time-out."""

    def __init__(
        self,
        writer: Writer,
        in_flight: InFlight,
        *,
        storage_problem: Callable[[Exception], Problem],
        crash_problem: Callable[[], Problem],
        timeout_problem: Callable[[], Problem],
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.engine: EngineLife | None = None  # set once, by wiring: the engine's life reports back to here
        self._writer = writer
        self._in_flight = in_flight
        self._storage_problem = storage_problem
        self._crash_problem = crash_problem
        self._timeout_problem = timeout_problem
        self._clock = clock
        self._second = 0
        self._sampled = 0

    def begin(self, row: AcceptedRow, answer: Answer, submits: Iterable[Submit]) -> None:
        """Record and submit, in parallel; the answer hears of both. Refused at once when the records take nothing now."""
        if (trouble := self._writer.trouble) is not None:
            answer.commit(self._storage_problem(trouble))
            return
        self._in_flight.add(answer)
        self._writer.accept(row, lambda error: answer.commit(None if error is None else self._storage_problem(error)))
        if self.engine is not None:
            self.engine.submit(submits)

    def refuse(self, row: AcceptedRow, status: int, detail: str) -> None:
        """Record a POST that was refused before it began: each that names a run, of the others a few a second."""
        now = self._clock()
        if row.run is None:
            second = now // SECOND
            self._sampled = self._sampled + 1 if second == self._second else 1
            self._second = second
            if self._sampled > SAMPLES_PER_S:
                return
        self._writer.refuse(row, status, detail, now)

    def settle(self, answer: Answer, why: str = "operator") -> None:
        """Nobody waits for `answer` any more: what is unfinished of it is aborted. May be called twice."""
        answer.stream.close()
        ids = answer.unfinished
        if ids and (self.engine is None or not self.engine.abort(ids, answer.stream.lost or why)):
            self.end_by_web(answer, "abort", answer.stream.lost or why)

    def cancel(self, request_id: str) -> bool:
        """Abort a live request in an operator's name; False when there is none with this id."""
        answer = self._in_flight.find(request_id)
        if answer is None:
            return False
        self.settle_now(answer)
        return True

    def settle_now(self, answer: Answer) -> None:
        """Ask the engine to abort; its RequestFinished tells the client why the answer ends."""
        if self.engine is None or not self.engine.abort(answer.unfinished, "operator"):
            answer.fail(self._crash_problem())
            self.end_by_web(answer, "abort", "operator")

    def engine_gone(self) -> None:
        """The engine died. Who had a token is told so; the others wait for the next one."""
        for answer in self._in_flight.engine_gone():
            gone = answer.stream.lost
            self.end_by_web(answer, "abort" if gone else "error", gone or "engine_crash")
            answer.fail(self._crash_problem())

    def resubmit(self) -> Iterator[Submit]:
        """A new engine is up: all that waits for one, also what came while there was none."""
        for answer, submit in self._in_flight.unsubmitted():
            if answer.stream.lost is not None:
                self.end_by_web(answer, "abort", answer.stream.lost)
            else:
                yield structs.replace(submit, resubmitted=True)

    def expire(self) -> None:
        """While there is no engine to keep them: end what has passed its time-out."""
        now = self._clock()
        for answer, submit in self._in_flight.unsubmitted():
            if submit.timeout_at is not None and submit.timeout_at <= now:
                answer.fail(self._timeout_problem())
                self.end_by_web(answer, "timeout", None)

    def end_by_web(self, answer: Answer, reason: Reason, detail: str | None) -> None:
        """End it in the records in the web's own name: there is no engine that could."""
        self._in_flight.drop(answer)
        self._writer.end(answer.id, reason, detail, self._clock())
