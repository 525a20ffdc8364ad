"""The HTTP/1.1 server: gevent's, with strict framing, time-outs, and its socket shown to who streams on it.

Knows no route and no body format beyond the error object. Adds to the environ: `batchscope.socket` (the green socket),
`batchscope.received_at` (monotonic ns, when the head was complete), `batchscope.flush` (sends status line and headers now).
Invariant: a request whose framing is ambiguous is refused and its connection closed; a client's abort is never our error.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from typing import Any

import gevent
from gevent import pywsgi
from gevent.hub import get_hub

from app.api.errors import Problem
from app.request_id import new_request_id

IDLE_S = 75.0  # a kept-alive connection without a request
HEAD_S = 10.0  # from the request line to the end of the headers
BODY_S = 30.0  # the whole body
DISCARD_S = 1.0  # how long a refused body is read and thrown away, so that the client can read the answer
DISCARD_BYTES = 32 << 20
MAX_HEADER_BYTES = 32 << 10
MAX_HEADERS = 100
READABLE = 1
_PLAIN_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
_REASONS = {400: "Bad Request", 408: "Request Timeout", 431: "Request Header Fields Too Large", 501: "Not Implemented"}


class BadFraming(ValueError):
    """The request cannot be read without guessing."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class BoundedInput(pywsgi.Input):  # type: ignore[misc]
    """A body that must come in time, and is thrown away only up to a bound.

    `exhausted` says whether the next request's head follows; reading raises TimeoutError when the body is too slow.
    """

    __slots__ = ("exhausted", "_ends_at")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.exhausted = True
        self._ends_at = time.monotonic() + BODY_S

    def read(self, length: int | None = None) -> bytes:
        """Up to `length` bytes."""
        late = TimeoutError(f"the body did not come within {BODY_S:g} s")
        with gevent.Timeout(max(0.001, self._ends_at - time.monotonic()), late):
            data: bytes = super().read(length)
            return data

    def _discard(self) -> None:
        left, self.exhausted = DISCARD_BYTES, False
        if self.socket is not None or self._chunked_input_error:
            return  # the client waits for "100 Continue", or nobody knows where the body ends
        with gevent.Timeout(DISCARD_S, False):
            while left > 0:
                data = super().read(16384)
                if not data:
                    self.exhausted = True
                    return
                left -= len(data)


class Handler(pywsgi.WSGIHandler):  # type: ignore[misc]
    """One connection."""

    wsgi_input: Any

    def read_requestline(self) -> str:
        """The request line, or "" when none came in time."""
        with gevent.Timeout(IDLE_S, False):
            line: str = super().read_requestline()
            return line
        return ""

    def read_request(self, raw_requestline: str) -> bool:
        """Line and headers, in time and unambiguous; raises BadFraming."""
        words = raw_requestline.split()
        if len(words) != 3 or not words[1].startswith(("/", "*")) or "\x00" in raw_requestline:
            raise BadFraming(400, "the request line is not METHOD /path HTTP/1.1")
        with gevent.Timeout(HEAD_S, False):
            done: bool = super().read_request(raw_requestline)
            return done
        raise BadFraming(408, f"the headers did not come within {HEAD_S:g} s")

    def MessageClass(self, *args: Any) -> Any:  # noqa: N802 - the name is gevent's hook
        """The parsed headers; called by read_request before it looks at any of them."""
        try:
            headers = super().MessageClass(*args)
        except Exception as error:  # http.client raises its own family here, for too many headers
            raise BadFraming(431, "too many headers") from error
        if headers.status:
            raise BadFraming(431, "a header is too long")
        check_headers(headers)
        return headers

    def get_environ(self) -> dict[str, Any]:
        """The WSGI environ with our additions."""
        environ: dict[str, Any] = super().get_environ()
        plain = self.wsgi_input
        self.wsgi_input = BoundedInput(plain.rfile, plain.content_length, plain.socket, plain.chunked_input)
        if environ["wsgi.input"] is plain:
            environ["wsgi.input"] = self.wsgi_input
        environ["batchscope.socket"] = self.socket
        environ["batchscope.received_at"] = time.monotonic_ns()
        environ["batchscope.flush"] = self._flush_headers
        environ["wsgi.url_scheme"] = "http"
        return environ

    def handle_one_response(self) -> None:
        """Answer, then give the connection up when the body's end was not reached."""
        super().handle_one_response()
        if not self.wsgi_input.exhausted or self._connection_upgrade_requested():
            self.close_connection = True

    def handle_error(self, kind: type[BaseException], value: BaseException, trace: Any) -> None:
        """A client that went away is not an error of ours."""
        if isinstance(value, (ConnectionError, gevent.Timeout)):
            self.close_connection = True
            return
        super().handle_error(kind, value, trace)

    def _handle_client_error(self, error: Exception) -> tuple[str, bytes]:
        status = error.status if isinstance(error, BadFraming) else 400
        self.close_connection = True
        return str(status), refusal(Problem(status, str(error) or "the request cannot be read", None, "bad_framing"))

    def _flush_headers(self) -> None:
        self.write(b"")


class Server(pywsgi.WSGIServer):  # type: ignore[misc]
    """Accepts, with TCP_NODELAY, which pywsgi never sets."""

    def __init__(self, listener: socket.socket, application: Callable[..., Any]) -> None:
        super().__init__(listener, application, log=None, error_log=None, handler_class=Handler)

    def do_handle(self, *args: Any) -> None:
        """One accepted connection."""
        args[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().do_handle(*args)


class Watcher:
    """Tells when the client of a socket may have gone, without a write. `notify` runs in the hub: it must not block.

    A half-close is a hang-up. Pipelined bytes would keep the socket readable for ever: they end the watch.
    """

    def __init__(self, sock: Any, notify: Callable[[], None]) -> None:
        self._raw = sock._sock
        self._notify = notify
        self._io = get_hub().loop.io(self._raw.fileno(), READABLE)
        self._watching = True
        self._io.start(notify)

    def gone(self) -> bool:
        """Has the client closed its side?"""
        if not self._watching:
            return False
        try:
            seen = self._raw.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True
        if seen:
            self.stop()
        return not seen

    def stop(self) -> None:
        """End the watch; may be called twice."""
        if self._watching:
            self._watching = False
            self._io.stop()
            self._io.close()


def check_headers(headers: Any) -> None:
    """Refuse what two readers could read differently; raises BadFraming."""
    items = headers.items()
    if len(items) > MAX_HEADERS or sum(len(name) + len(value) for name, value in items) > MAX_HEADER_BYTES:
        raise BadFraming(431, f"more than {MAX_HEADERS} headers or {MAX_HEADER_BYTES} bytes of them")
    if headers.defects or headers.get_payload():
        raise BadFraming(400, "a header line is malformed")
    for name, value in items:
        if not _PLAIN_VALUE.fullmatch(value) or not name.strip() or name != name.strip():
            raise BadFraming(400, "a header is folded or holds control bytes")
    counts = {name: len(headers.get_all(name, ())) for name in ("host", "content-length", "transfer-encoding", "content-type")}
    if counts["host"] != 1 or max(counts.values()) > 1:
        raise BadFraming(400, "exactly one Host and at most one Content-Length, Transfer-Encoding, Content-Type are needed")
    length, coding = headers.get("content-length"), headers.get("transfer-encoding")
    if coding is not None and coding.strip().lower() != "chunked":
        raise BadFraming(501, "only the chunked transfer coding is understood")
    if coding is not None and length is not None:
        raise BadFraming(400, "Content-Length and Transfer-Encoding exclude each other")
    if length is not None and not (length.isascii() and length.isdigit() and len(length) < 20):
        raise BadFraming(400, "Content-Length is not a number")


def refusal(problem: Problem) -> bytes:
    """A whole HTTP answer for a request that never became one."""
    body = problem.body()
    head = (
        f"HTTP/1.1 {problem.status} {_REASONS[problem.status]}\r\nContent-Type: application/json\r\nConnection: close\r\n"
        f"Content-Length: {len(body)}\r\nX-Content-Type-Options: nosniff\r\nX-Request-Id: {new_request_id()}\r\n\r\n"
    )
    return head.encode("latin-1") + body
