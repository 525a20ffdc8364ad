"""Acceptance: the moment a POST becomes ours, and the ways it is given up. Joins records, engine and flight; knows no HTTP.

Invariant: every answer that was begun ends in the records, through the engine's RequestFinished or through `writer.end`;
nothing stays with the engine that nobody waits for.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator

from app.api.errors import Problem
from app.serving.answers import Answer, Track
from app.serving.in_flight import InFlight
from app.serving.suspects import Suspects
from app.serving.trials import Trials
from app.store.accepted import AcceptedRow, Reason
from app.store.writer import Writer
from app.supervisor.engine_life import EngineLife
from scheduler.engine.messages import Submit

log = logging.getLogger("batchscope")

SAMPLES_PER_S = 10  # rows of refused POSTs that name no run
SECOND = 1_000_000_000


class Acceptance:
    """`storage_problem` words a refusal of the records, `crash_problem` an engine's death, `timeout_problem` a time-out,
    `poison_problem` what the engine has died of twice."""

    def __init__(
        self,
        writer: Writer,
        in_flight: InFlight,
        *,
        storage_problem: Callable[[Exception], Problem],
        crash_problem: Callable[[str], Problem],
        timeout_problem: Callable[[], Problem],
        poison_problem: Callable[[], Problem],
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.engine: EngineLife | None = None  # set once, by wiring: the engine's life reports back to here
        self._writer = writer
        self._in_flight = in_flight
        self._storage_problem = storage_problem
        self._crash_problem = crash_problem
        self._timeout_problem = timeout_problem
        self._poison_problem = poison_problem
        self._clock = clock
        self.suspects = Suspects(clock)
        self._trials = Trials(in_flight, self.suspects)
        self._second = 0
        self._sampled = 0

    def begin(self, row: AcceptedRow, answer: Answer, submits: Iterable[Submit]) -> None:
        """Record and submit, in parallel; the answer hears of both. Refused at once when the records take nothing now."""
        if (trouble := self._writer.trouble) is not None:
            answer.commit(self._storage_problem(trouble))
            return
        self._in_flight.add(answer)
        self._writer.accept(row, lambda error: answer.commit(None if error is None else self._storage_problem(error)))
        if self._trials.on:
            self._trials.hold([submit.id for submit in submits])
        elif self.engine is not None:
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
        if answer.unfinished and not self._abort(answer, answer.stream.lost or why):
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
        if not self._abort(answer, "operator"):
            answer.fail(self._crash_problem("engine_crash"))
            self.end_by_web(answer, "abort", "operator")

    def engine_gone(self, detail: str = "engine_crash") -> bool:
        """The engine died, or hung (`detail`: the records' word). Who had a token is told so; the others wait for the next
        one, but for what has been found to be poison: True if so."""
        poison = self._trials.over()
        for answer in self._in_flight.answers() if poison is not None else ():
            if any(track.fingerprint == poison for track in answer.tracks):
                log.error("request %s: the engine died of it alone, after one death before; it is refused now", answer.id)
                self._crashed(answer, "poison_request", self._poison_problem())
        for answer in self._in_flight.engine_gone():
            self._crashed(answer, detail, self._crash_problem(detail))
        return poison is not None

    def resubmit(self) -> Iterator[Submit]:
        """A new engine is up: all that waits for one, also what came while there was none."""
        return self._trials.begin(self._unsubmitted())

    def _unsubmitted(self) -> Iterator[Track]:
        for track, _ in self._in_flight.unsubmitted():
            if track.answer.stream.lost is not None:
                self.end_by_web(track.answer, "abort", track.answer.stream.lost)
            else:
                yield track

    def go_on(self) -> None:
        """After each message of the engine: whoever is tried may make room for the next."""
        if self._trials.on and self.engine is not None:
            self.engine.submit(self._trials.go_on())

    def expire(self) -> None:
        """While there is no engine to keep them, or it has got nothing of an answer yet: end what has passed its time-out.
        Of one that is tried the engine keeps the time, and what is held of it ends when the engine gets it."""
        up = self.engine is not None and self.engine.up
        if up and not self._trials.on:
            return
        now = self._clock()
        for track, submit in self._in_flight.unsubmitted():
            late = submit.timeout_at is not None and submit.timeout_at <= now
            if late and (not up or self._trials.holds_all(track.answer.unfinished)):
                track.answer.fail(self._timeout_problem())
                self.end_by_web(track.answer, "timeout", None)

    def _abort(self, answer: Answer, why: str) -> bool:
        """Ask the engine to end it; False when there is none, or it has not got all of it."""
        told = self.engine is not None and self.engine.abort(answer.unfinished, why)
        return told and not self._trials.holds(answer.unfinished)

    def _crashed(self, answer: Answer, detail: str, problem: Problem) -> None:
        gone = answer.stream.lost
        self.end_by_web(answer, "abort" if gone else "error", gone or detail)
        answer.fail(problem)

    def end_by_web(self, answer: Answer, reason: Reason, detail: str | None) -> None:
        """End it in the records in the web's own name: there is no engine that could."""
        self._in_flight.drop(answer)
        self._writer.end(answer.id, reason, detail, self._clock())
