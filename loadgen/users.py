"""The Locust user of a closed loop: asks, waits for the answer, asks again. Import only where Locust may patch.

Knows no HTTP: the session makes the call. Locust's own table gets one entry a request, with E2E (last token - sent);
what a user of LLMs cares for (first token, gaps, lateness) is in our records, since Locust has no place for it.
"""

from __future__ import annotations

from typing import Any

import gevent
from locust import User, task
from locust.exception import StopUser

from loadgen.results import INCOMPLETE, OK, Record
from loadgen.session import Session

PAUSE_S = 0.25


class CallFailed(Exception):
    """How a call ended if not well. Its text has few values: Locust keeps an entry for each one."""


def report_to_locust(environment: Any, record: Record) -> None:
    """Fire Locust's request event, once a request."""
    end = record.end_ms if record.last_ms is None else record.last_ms
    failure = None if record.status == OK else CallFailed(f"{record.status} {record.http or ''}".strip())
    environment.events.request.fire(
        request_type="POST",
        name=record.kind,
        response_time=end - record.sent_ms,
        response_length=record.output_tokens or 0,
        exception=failure,
        context={"id": record.id, "tenant": record.tenant, "ttft_ms": _ttft(record), "due_ms": record.due_ms},
    )


class LoadUser(User):  # type: ignore[misc]  # Locust is untyped here
    """One user of the closed-loop stream; without such a stream it only keeps Locust company."""

    session: Session | None = None  # set by the node while a run lasts

    @task  # type: ignore[untyped-decorator]
    def ask(self) -> None:
        session = type(self).session
        stream = None if session is None else session.job.scenario.closed
        if session is None or stream is None:
            self._rest(session)
            return
        record = session.turn(stream)
        if record is None:
            self._rest(session)
        elif record.status == INCOMPLETE:
            raise StopUser()  # this user was killed in the middle of its call

    def wait_time(self) -> float:
        session = type(self).session
        stream = None if session is None else session.job.scenario.closed
        return 0.0 if stream is None else stream.arrivals.think_s

    def _rest(self, session: Session | None) -> None:
        if session is None:
            gevent.sleep(PAUSE_S)
        elif session.stopping.wait(PAUSE_S):
            raise StopUser()


def _ttft(record: Record) -> float | None:
    return None if record.first_ms is None else record.first_ms - record.sent_ms
