"""The HTTP/1.1 server: gevent's, with strict framing, time-outs, caps, and its socket shown to who streams on it.

Knows no route and no body format beyond the error object. Adds to the environ: `batchscope.socket` (the green socket),
`batchscope.received_at` (monotonic ns, when the head was complete), `batchscope.flush` (sends status line and headers now).
Invariants: a request whose framing is ambiguous is refused and its connection closed; a client's abort is never our error;
every answer, also one to what never became a request, carries an id and the safe headers.
"""

from __future__ import annotations

import contextlib
import errno
import io
import socket
import time
from collections.abc import Callable
from typing import Any

import gevent
from gevent import pywsgi
from gevent.hub import get_hub

from app.api.errors import Problem
from app.request_id import new_request_id
from app.safe_headers import safe_headers
from app.serving.connections import Connections
from app.serving.request_body import Body, BrokenBody
from app.serving.request_head import MAX_LINE, BadFraming, check_headers, check_request_line, read_header_block

IDLE_S = 75.0  # a kept-alive connection without a request
HEAD_S = 10.0  # from the first byte of the request line to the end of the headers; a new connection's silence
SEND_S = 120.0  # one piece of an answer, to a client that does not read
LINGER_S = 1.0  # how long a refused connection is read on, so that the client reads our answer, not a reset
READABLE = 1
_LINGER_BYTES = 1 << 20
_PIECE = 1 << 16
_REASONS = {
    400: "Bad Request",
    408: "Request Timeout",
    414: "URI Too Long",
    417: "Expectation Failed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
FULL = Problem(503, "too many connections; try again later", None, "too_many_connections", {"Retry-After": "1"})
BROKEN = Problem(400, "the request cannot be read", None, "bad_framing")
CRASHED = Problem(500, "an error on our side; the server's log has it under this X-Request-Id", None, "internal")


class Handler(pywsgi.WSGIHandler):  # type: ignore[misc]
    """One connection."""

    wsgi_input: Body
    _served = 0
    _head_ends_at = 0.0

    def read_requestline(self) -> str:
        """The request line; "" when none was begun in time."""
        begun = b""
        with gevent.Timeout(IDLE_S if self._served else HEAD_S, False):
            begun = self.rfile.peek(1)
        if not begun:
            return ""
        self._head_ends_at = time.monotonic() + HEAD_S
        with gevent.Timeout(HEAD_S, False):
            return str(self.rfile.readline(MAX_LINE + 1), "latin-1")
        return "late"  # read_request says so

    def read_request(self, raw_requestline: str) -> bool:
        """Line and headers, in time and unambiguous; raises BadFraming."""
        late = BadFraming(408, f"the head of the request did not come within {HEAD_S:g} s")
        left = self._head_ends_at - time.monotonic()
        if left <= 0:
            raise late
        check_request_line(raw_requestline)
        with gevent.Timeout(left, late):
            done: bool = super().read_request(raw_requestline)
        self._served += 1
        return done

    def MessageClass(self, *args: Any) -> Any:  # noqa: N802 - the name is gevent's hook
        """The parsed headers; called by read_request before it looks at any of them."""
        block = read_header_block(self.rfile)
        headers = super().MessageClass(io.BytesIO(block), 0)
        assert len(headers.items()) == block.count(b"\r\n") - 1, "the library reads other lines than we checked"
        check_headers(headers, self.request_version)
        return headers

    def get_environ(self) -> dict[str, Any]:
        """The WSGI environ with our additions."""
        environ: dict[str, Any] = super().get_environ()
        waiting = self.socket if "HTTP_EXPECT" in environ else None
        length = None if "HTTP_TRANSFER_ENCODING" in environ else self.content_length or 0
        self.wsgi_input = environ["wsgi.input"] = Body(self.rfile, length, waiting)  # also when an upgrade is asked for
        environ["wsgi.input_terminated"] = True
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
        """A client that went away or sends nonsense is not an error of ours."""
        self.close_connection = True
        if isinstance(value, BrokenBody):
            self._send_error_response_if_possible(400)
        elif not isinstance(value, (ConnectionError, gevent.Timeout)):
            super().handle_error(kind, value, trace)

    def _send_error_response_if_possible(self, error_code: int) -> None:
        """gevent's own answers are plain text without our headers."""
        self.close_connection = True
        if not self.headers_sent:
            request_id = (self.environ or {}).get("batchscope.request_id")
            self._refuse(BROKEN if error_code < 500 else CRASHED, request_id)

    def _handle_client_error(self, error: Exception) -> None:
        """What never became a request: answered here; the connection is closed."""
        self._refuse(Problem(error.status, str(error), None, "bad_framing") if isinstance(error, BadFraming) else BROKEN)
        if not isinstance(error, (ValueError, OSError)):
            raise error  # ours: the hub writes it to the log

    def _refuse(self, problem: Problem, request_id: str | None = None) -> None:
        self.close_connection = True
        self.headers_sent = True
        with contextlib.suppress(OSError):
            self._sendall(refusal(problem, request_id))
            self.socket.shutdown(socket.SHUT_WR)
            self._linger()

    def _linger(self) -> None:
        """A close with bytes unread is a reset, and that would overtake our answer."""
        left = _LINGER_BYTES
        with gevent.Timeout(LINGER_S, False):
            while left > 0 and (data := self.socket.recv(_PIECE)):
                left -= len(data)

    def _sendall(self, data: bytes) -> None:
        """A client that takes nothing for so long has gone: gevent knows EPIPE as that."""
        with gevent.Timeout(SEND_S, BrokenPipeError(errno.EPIPE, "the client does not read")):
            super()._sendall(data)

    def _flush_headers(self) -> None:
        self.write(b"")


class Server(pywsgi.WSGIServer):  # type: ignore[misc]
    """Accepts what there is room for, with TCP_NODELAY, which pywsgi never sets."""

    def __init__(
        self, listener: socket.socket, application: Callable[..., Any], connections: Connections | None = None
    ) -> None:
        super().__init__(listener, application, log=None, error_log=None, handler_class=Handler)
        self.connections = connections or Connections(0, 0, 0)

    def do_handle(self, *args: Any) -> None:
        """One accepted connection; what finds no room is told so without a greenlet."""
        if not self.connections.enter(_address(args[1])):
            turn_away(args[0])
            return
        args[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().do_handle(*args)

    def do_close(self, *args: Any) -> None:
        """A connection that was handled has ended."""
        self.connections.leave(_address(args[1]))
        super().do_close(*args)


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


def turn_away(sock: Any) -> None:
    """Answer 503 and close, without waiting for anything."""
    raw = sock._sock
    with contextlib.suppress(OSError):
        raw.setblocking(False)
        raw.send(refusal(FULL))
        raw.shutdown(socket.SHUT_WR)
        raw.recv(_PIECE)  # what has come already would make the close a reset
    sock.close()


def refusal(problem: Problem, request_id: str | None = None) -> bytes:
    """A whole HTTP answer for a request that never reached the application."""
    body = problem.body()
    headers = [
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
        ("Connection", "close"),
        ("X-Request-Id", request_id or new_request_id()),
        *problem.headers.items(),
        *safe_headers(),
    ]
    lines = [f"HTTP/1.1 {problem.status} {_REASONS[problem.status]}", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def _address(address: Any) -> str:
    return str(address[0]) if isinstance(address, tuple) else ""
