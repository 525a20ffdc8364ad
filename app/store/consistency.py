"""Do the records agree with one another? Questions over all rows, each with what it means and what helps. Only reads.

A fault breaks a promise of the records; what is merely left over (events of a request whose row could not be stored) is
counted beside it. What retention took away is no fault. Invariant: every question is a transaction of its own, so that a check
of a large database keeps nobody's log from being emptied for long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, text

from app.store.models import WAIT_COLUMNS

_PARTS = " + ".join(f"coalesce({name}, 0)" for name in (*WAIT_COLUMNS, "prefill_ns", "decode_ns", "stalled_ns", "preempted_ns"))
_MEND = "restore a backup from before, or delete what it concerns: "


@dataclass(frozen=True, slots=True)
class Question:
    """`query` counts the rows at fault, which `what` describes; `mend`: what helps. fault: False, where it is left over."""

    name: str
    what: str
    query: str
    mend: str
    fault: bool = True


@dataclass(frozen=True, slots=True)
class Finding:
    """A question that has found something."""

    question: Question
    rows: int

    @property
    def sentence(self) -> str:
        """For people."""
        return f"{self.rows} {self.question.what}: {self.question.mend}"


QUESTIONS = (
    Question(
        "ends",
        "finished requests have not exactly one end a sequence",
        "SELECT count(*) FROM requests WHERE state = 'finished' AND sequences <> (SELECT count(*) FROM request_events "
        "WHERE request_events.request_id = requests.id AND request_events.terminal)",
        _MEND + "`batchscope runs delete RUN`, `db prune`",
    ),
    Question(
        "parts",
        "requests whose waits, prefill, decode, stalls and preemptions do not sum to their time from end to end",
        "SELECT count(*) FROM requests WHERE state = 'finished' AND sequences = 1 AND prefill_ns IS NOT NULL "
        f"AND finished_at IS NOT NULL AND {_PARTS} <> finished_at - received_at",
        "their figures are not to be trusted; please report it with `batchscope requests show ID --json`",
    ),
    Question(
        "steps",
        "engine lives have gaps in their steps",
        "SELECT count(*) FROM (SELECT boot FROM steps WHERE ended_wall >= (SELECT coalesce(max(until_wall), 0) FROM purges) "
        "GROUP BY boot HAVING count(*) <> max(step) - min(step) + 1) AS gaps",
        "steps were lost, as when the disk was full: figures of steps in that time are too low",
    ),
    Question(
        "events_of_nobody",
        "events belong to no request",
        "SELECT count(*) FROM request_events WHERE NOT EXISTS "
        "(SELECT 1 FROM requests WHERE requests.id = request_events.request_id)",
        "their requests could not be stored; they do no harm",
        fault=False,
    ),
    Question(
        "clients_of_nobody",
        "lines of load generators belong to no run",
        "SELECT count(*) FROM client_requests WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = client_requests.run)",
        "they do no harm",
        fault=False,
    ),
    Question(
        "runs_of_nobody",
        "requests name a run that is not registered",
        "SELECT count(*) FROM requests WHERE run IS NOT NULL AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = requests.run)",
        "X-Batchscope-Run was given by hand, or an import was cut short: `db prune` takes them as those of no run",
        fault=False,
    ),
)


def findings(engine: Engine, look: Callable[[str, int, int], object] = lambda name, n, of: None) -> Iterator[Finding]:
    """What was found, one by one; look(name, n, of) before each question."""
    for n, question in enumerate(QUESTIONS):
        look(question.name, n, len(QUESTIONS))
        with engine.connect() as connection:
            rows = _count(connection, question.query)
        if rows:
            yield Finding(question, rows)


def sizes(engine: Engine) -> dict[str, int]:
    """Rows by table."""
    with engine.connect() as connection:
        return {name: _count(connection, f"SELECT count(*) FROM {name}") for name in _TABLES}


_TABLES = ("runs", "requests", "request_events", "client_requests", "steps")


def _count(connection: Connection, query: str) -> int:
    return int(connection.execute(text(query)).scalar_one())
