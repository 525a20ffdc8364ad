"""The records of one simulation, as it goes: events in, the same rows out that a load run leaves, in a file of their own.

A simulation has nobody but itself, so it writes the client's rows as well: somebody who sends in the instant that is due
and hears of each token in the instant that its step ends. Its time begins at 0, on both clocks: no window of a measured
run ever holds a step of it. `adopt` (adopt.py) takes the file over into the records of a server.
Invariant: every request that arrived has one row on each side; what the database refuses ends the simulation, not in silence.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from app.store import client_rows, database, migrate, run_summary, runs
from app.store.accepted import AcceptedRow
from app.store.errors import StoreFailed
from app.store.filters import SIMULATED
from app.store.fold import Item
from app.store.runs import NewRun
from app.store.scribe import Job, Scribe
from scheduler.core.events import Event, RequestFinished, RequestQueued, StepCompleted
from scheduler.core.request import FinishReason
from scheduler.metrics import FINISHED_WELL
from scheduler.simulate import Asked

BOOT = -1  # lives that were simulated are numbered downwards, so that the newest life is always one that was lived
ITEMS_A_COMMIT = 5_000
NEVER = ("empty_prompt", "max_tokens", "context_length", "kv_capacity")  # refusals that waiting would not have helped
MS = 1_000_000


class Recording:
    """See the module. `told` and `events` as Requests and Simulation call them, then `close`."""

    def __init__(self, path: Path, run: NewRun, model: str) -> None:
        """Make the file; the run's row says `running`."""
        url = f"sqlite:///{path}"
        migrate.upgrade(url)
        self._url = url
        self._run = run
        self._model = model
        self._scribe = Scribe(database.writing(url))
        self._coming: dict[str, Asked] = {}
        self._here: dict[str, Asked] = {}
        self._numbers: dict[int, str] = {}
        self._tokens: dict[str, array[int]] = {}
        self._accepts: list[AcceptedRow] = []
        self._items: list[Item] = []
        self._lines: list[dict[str, Any]] = []
        self.counts = dict.fromkeys(("sent", "ok", "failed", "refused", "cancelled", "incomplete"), 0)
        self._job(lambda connection: runs.create(connection, run))

    def told(self, asked: Asked) -> None:
        """A request is about to arrive."""
        self._coming[asked.id] = asked

    def events(self, events: Sequence[Event]) -> None:
        """What one call of the core made happen, in order; a step's events come together."""
        ended = []
        for event in events:
            if isinstance(event, StepCompleted):
                self._step(event)
            elif isinstance(event, RequestQueued):
                self._arrived(event.id)
                self._numbers[event.seq] = event.id
            elif isinstance(event, RequestFinished):
                if not event.number:
                    self._arrived(event.id)
                ended.append(event)
        self._items += events
        for event in ended:
            self._ended(event)
        if len(self._items) >= ITEMS_A_COMMIT:
            self._write()

    def close(self, status: str, ended_wall: int, progress: Mapping[str, Any]) -> dict[str, Any]:
        """The run is over, everybody in it has ended; its report, which is kept with it."""
        self._write()
        assert not self._here, f"{len(self._here)} requests have not ended"
        columns = {"status": status, "ended_wall": ended_wall, "progress": dict(progress) | self.counts}
        self._job(lambda connection: runs.change(connection, self._run.id, **columns))
        kept = self._job(lambda connection: run_summary.compute(connection, self._run.id))
        self._job(lambda connection: run_summary.keep(connection, self._run.id, kept))
        self._scribe.hang_up()
        report: dict[str, Any] = kept.report
        return report

    # ---- one request

    def _arrived(self, id: str) -> None:
        asked = self._here[id] = self._coming.pop(id)
        self.counts["sent"] += 1
        ask = asked.ask
        self._tokens[id] = array("q")
        self._accepts.append(
            AcceptedRow(
                id, asked.at, asked.at, SIMULATED, stream=True, model=self._model, run=self._run.id, client_request_id=id,
                tenant=ask.tenant, kind=ask.kind, priority=ask.priority, prompt_tokens=ask.prompt_tokens,
                max_tokens=ask.output_tokens, deadline_ms=ask.deadline_ms, timeout_ms=ask.timeout_ms,
            )
        )  # fmt: skip

    def _step(self, event: StepCompleted) -> None:
        at, tokens, numbers = event.ended_at, self._tokens, self._numbers
        assert not event.failed, "simulated rows do not err"
        for number in event.decodes:
            tokens[numbers[number]].append(at)
        for number, _, emitted in event.chunks:
            if emitted:
                tokens[numbers[number]].append(at)

    def _ended(self, event: RequestFinished) -> None:
        asked, times = self._here.pop(event.id), self._tokens.pop(event.id)
        self._numbers.pop(event.number, None)
        status, http, word = _seen(event)
        self.counts[word] += 1
        sent, ms = asked.at / MS, [at / MS for at in times]
        line = {
            "id": event.id,
            "status": status,
            "n": self.counts["sent"],
            "http": http,
            "error": None if word == "ok" else event.detail or event.reason.value,
            "tenant": asked.ask.tenant,
            "kind": asked.ask.kind,
            "due_ms": sent if asked.due else None,
            "sent_ms": sent,
            "first_ms": ms[0] if ms else None,
            "last_ms": ms[-1] if ms else None,
            "end_ms": event.at / MS,
            "prompt_tokens": event.prompt_tokens,
            "output_tokens": event.output_tokens,
            "gaps_ms": [later - earlier for earlier, later in pairwise(ms)],
            "server_id": event.id,
            "attempts": 1,
        }
        self._lines.append(client_rows.row(self._run.id, line))

    # ---- the file

    def _write(self) -> None:
        answers = self._scribe.write([(row, _refused) for row in self._accepts], [(self._items, 0)])
        for answer in answers:
            answer()
        trouble = self._scribe.trouble
        if trouble is not None or self._scribe.lost:
            raise trouble or StoreFailed(f"the records refused an event: {self._scribe.last_error}")
        lines, self._lines, self._accepts, self._items = self._lines, [], [], []
        self._job(lambda connection: client_rows.add(connection, self._run.id, lines))

    def _job(self, work: Any) -> Any:
        """In a transaction of its own; raises what it raised."""
        answered: list[tuple[Any, Exception | None]] = []
        job = Job(work, lambda result, error: answered.append((result, error)))
        while not answered:
            for answer in self._scribe.advance(job):
                answer()
        result, error = answered[0]
        if error is not None:
            raise error
        return result


def _refused(error: Exception | None) -> None:
    if error is not None:
        raise error


def _seen(event: RequestFinished) -> tuple[str, int | None, str]:
    """(status, HTTP status, which count) of a request as its sender would have seen it end."""
    if event.reason in FINISHED_WELL:
        return "ok", 200, "ok"
    if event.reason is FinishReason.REJECTED:
        return ("http_error", 400, "failed") if event.detail in NEVER else ("shed", 429, "refused")
    if event.reason is FinishReason.TIMEOUT:
        return "timeout", 504, "failed"
    if event.reason is FinishReason.ABORT:
        return "incomplete", None, "incomplete"
    return "http_error", 500, "failed"
