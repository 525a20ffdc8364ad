"""Acceptance: the moment a POST becomes ours, and the ways it is given up. Joins records, engine and flight; knows no HTTP.

Invariant: every answer that was begun ends in the records, through the engine's RequestFinished or through `writer.end`;
nothing stays with the engine that nobody waits for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from app.api.errors import Problem
from app.serving.answers import Answer
from app.serving.in_flight import InFlight
from app.store.accepted import AcceptedRow, Reason
from app.store.writer import Writer
from app.supervisor.engine_life import EngineLife
from scheduler.engine.messages import Submit


class Acceptance:
    """`storage_problem` words a refusal of the records; `crash_problem` what an engine's death means to a client."""

    def __init__(
        self,
        writer: Writer,
        in_flight: InFlight,
        *,
        storage_problem: Callable[[Exception], Problem],
        crash_problem: Callable[[], Problem],
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.engine: EngineLife | None = None  # set once, by wiring: the engine's life reports back to here
        self._writer = writer
        self._in_flight = in_flight
        self._storage_problem = storage_problem
        self._crash_problem = crash_problem
        self._clock = clock

    def begin(self, row: AcceptedRow, answer: Answer, submits: Iterable[Submit]) -> None:
        """Record and submit, in parallel; the answer hears of both."""
        self._in_flight.add(answer)
        self._writer.accept(row, lambda error: answer.commit(None if error is None else self._storage_problem(error)))
        if self.engine is not None:
            self.engine.submit(submits)

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

    def engine_gone(self) -> list[Submit]:
        """The engine died. Who had a token is told so; the others are handed back, to be submitted again."""
        lost, again = self._in_flight.engine_gone()
        for answer in lost:
            gone = answer.stream.lost
            self.end_by_web(answer, "abort" if gone else "error", gone or "engine_crash")
            answer.fail(self._crash_problem())
        return [_again(submit) for submit in again]

    def end_by_web(self, answer: Answer, reason: Reason, detail: str) -> None:
        """End it in the records in the web's own name: there is no engine that could."""
        self._in_flight.drop(answer)
        self._writer.end(answer.id, reason, detail, self._clock())


def _again(submit: Submit) -> Submit:
    return Submit(
        submit.id,
        submit.prompt,
        submit.params,
        submit.received_at,
        submit.tenant,
        submit.kind,
        submit.priority,
        submit.deadline_at,
        submit.timeout_at,
        submit.expected_output_tokens,
        submit.run,
        True,
    )
