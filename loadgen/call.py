"""One call: send a request, read its stream to the end, return what was seen. Knows no schedule and no Locust.

The first token is stamped when its bytes arrive, before parsing. The response is read to its end, not to [DONE], so
that the connection lives on. Nothing is retried. Invariant: whatever happens, exactly one Record comes back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import gevent
import orjson

from loadgen.answer import MAX_ERROR, Answer, error_text
from loadgen.connection import Connection, Pool
from loadgen.http1 import Head, HttpError
from loadgen.results import CLIENT_CANCEL, HTTP_ERROR, INCOMPLETE, SHED, STREAM_ERROR, TIMEOUT, Record
from loadgen.sse import SseEvent, SseSplitter

LINGER_S = 1.0  # a server that never closes after [DONE] gets so long
MAX_ERROR_BODY = 65_536
SHED_STATUSES = (429, 503)


class TimedOut(Exception):
    """The client's own time-out of the whole call."""


class HungUp(Exception):
    """The scenario wants this client to hang up now."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request ready to go. Times in perf_counter seconds."""

    id: str
    n: int
    tenant: str
    kind: str
    data: bytes
    due: float | None
    timeout_s: float
    cancel_after_s: float | None
    started: float


def encode(path: str, host: str, body: bytes, headers: dict[str, str]) -> bytes:
    """The bytes of a POST."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += ["Accept: text/event-stream", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


def perform(call: Call, pool: Pool, on_token: Callable[[bool], None] | None = None) -> Record:
    """Make the call; `on_token(first)` is told of each token event. The call of a killed greenlet is `incomplete`."""
    sent = time.perf_counter()
    exchange = _Exchange(pool, on_token)
    timeout = gevent.Timeout(call.timeout_s, TimedOut)
    hang_up = gevent.Timeout(call.cancel_after_s, HungUp)
    try:
        with timeout, hang_up:
            status, error = exchange.run(call.data)
    except TimedOut:
        status, error = TIMEOUT, f"no end within {call.timeout_s:g} s"
    except HungUp:
        status, error = CLIENT_CANCEL, None
    except gevent.GreenletExit:
        status, error = INCOMPLETE, None
    except (OSError, HttpError) as failure:
        status, error = HTTP_ERROR, f"{type(failure).__name__}: {failure}"[:MAX_ERROR]
    finally:
        exchange.leave()
    return _record(call, exchange, sent, status, error)


class _Exchange:
    """The connection and the answer of one call."""

    def __init__(self, pool: Pool, on_token: Callable[[bool], None] | None) -> None:
        self.answer = Answer()
        self.http: int | None = None
        self.request_id: str | None = None
        self._pool = pool
        self._on_token = on_token
        self._connection: Connection | None = None

    def run(self, data: bytes) -> tuple[str, str | None]:
        """(status, error). OSError before the head is a failure of HTTP; after it, of the stream."""
        connection = self._connection = self._pool.take()
        connection.send(data)
        head = connection.head()
        self.http = head.status
        self.request_id = head.headers.get("x-request-id")
        if head.status != 200:
            return (SHED if head.status in SHED_STATUSES else HTTP_ERROR), self._refusal(connection, head)
        content = head.headers.get("content-type", "")
        if not content.startswith("text/event-stream"):
            return STREAM_ERROR, f"expected text/event-stream, got {content or 'no content type'}"
        return self.answer.verdict(self._read(connection, head))

    def _read(self, connection: Connection, head: Head) -> str | None:
        """Read the stream to its end; how the transport broke, or None."""
        splitter = SseSplitter()
        try:
            for piece in connection.pieces(head):
                now = time.perf_counter()
                self._fold(splitter.feed(piece), now)
                if self.answer.done:
                    connection.hurry(LINGER_S)
        except (OSError, HttpError) as failure:
            return f"{type(failure).__name__}: {failure}"[:MAX_ERROR]
        self._fold(splitter.close(), time.perf_counter())
        return None

    def _fold(self, events: Sequence[SseEvent], now: float) -> None:
        for event in events:
            if self.answer.take(event, now) and self._on_token is not None:
                self._on_token(self.answer.events == 1)

    def _refusal(self, connection: Connection, head: Head) -> str:
        body = b""
        for piece in connection.pieces(head):
            body += piece
            if len(body) > MAX_ERROR_BODY:
                break
        try:
            return error_text(orjson.loads(body))[:MAX_ERROR]
        except orjson.JSONDecodeError:
            return body[:MAX_ERROR].decode("utf-8", "replace")

    def leave(self) -> None:
        if self._connection is not None:
            self._pool.give_back(self._connection)


def _record(call: Call, exchange: _Exchange, sent: float, status: str, error: str | None) -> Record:
    answer = exchange.answer

    def ms(at: float | None) -> float | None:
        return None if at is None else round((at - call.started) * 1e3, 3)

    record = Record(
        id=call.id,
        n=call.n,
        tenant=call.tenant,
        kind=call.kind,
        due_ms=ms(call.due),
        sent_ms=round((sent - call.started) * 1e3, 3),
        first_ms=ms(answer.first),
        last_ms=ms(answer.last),
        end_ms=round((time.perf_counter() - call.started) * 1e3, 3),
        status=status,
        http=exchange.http,
        error=error,
        prompt_tokens=answer.prompt_tokens,
        output_tokens=answer.output_tokens if answer.seen else None,
        estimated=answer.seen and answer.estimated,
        gaps_ms=tuple(round(gap * 1e3, 3) for gap in answer.gaps),
        server_id=exchange.request_id or answer.server_id,
    )
    return record if answer.first_tokens is None else replace(record, first_tokens=answer.first_tokens)
