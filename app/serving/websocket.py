"""The websocket under Socket.IO: what is written is written whole, what comes is bounded, and what is over is closed.

Takes the place of python-engineio's driver, which writes with `send` (a slow reader gets a torn frame), reads without a
bound, and keeps the socket of a peer that stopped answering for ever. Knows no message's meaning: its Guard judges them.
Invariant: a connection whose peer takes no byte for PATIENCE_S, or sends more than it may, is closed, and it alone.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, Protocol

import gevent
import gevent.event
import gevent.selectors
import simple_websocket
from gevent.lock import BoundedSemaphore
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError

PATIENCE_S = 10.0  # without a byte taken by the peer
SEND_BUFFER = 128 << 10  # else the kernel hides megabytes from the bounds on what waits to be sent
BYTES_A_SECOND, BYTES_AT_ONCE = 16 << 10, 64 << 10

Verdict = Literal["pass", "drop", "end"]


class Guard(Protocol):
    """Judges what one peer says: passed on, let fall, or the end of its connection."""

    @property
    def patience(self) -> float | None:
        """How long the next message may take."""

    def hears(self, message: str | bytes) -> Verdict:
        """The judgement on what came."""

    def says(self, message: str) -> bool:
        """Told what goes out; True when nothing may follow it."""


def install(transport: Any, make_guard: Callable[[], Guard], most: int) -> None:
    """Have python-engineio's server use all this. It has no place for it, so ours goes where its own would be.

    Who comes when `most` are connected is refused before a session is made of it.
    """
    transport._async = transport._async | {"websocket": driver(make_guard)}
    connected = transport.handlers["connect"]

    def connect(sid: str, environ: dict[str, Any]) -> Any:
        if sum(not each.closed for each in transport.sockets.values()) > most:
            return f"more than {most} websockets"
        return connected(sid, environ)

    transport.on("connect", connect)


def driver(make_guard: Callable[[], Guard]) -> type[Any]:
    """The class that python-engineio makes for each connection, as (handler, server)."""

    class GuardedWebSocket(WebSocket):
        def __init__(self, handler: Callable[[Any], Any], server: Any) -> None:
            super().__init__(handler, make_guard(), server.max_http_buffer_size)

    return GuardedWebSocket


class WebSocket:
    """One connection, as python-engineio wants it. `limit`: the longest message, in bytes."""

    def __init__(self, handler: Callable[[Any], Any], guard: Guard, limit: int) -> None:
        self._handler = handler
        self._guard = guard
        self._limit = limit

    def __call__(self, environ: dict[str, Any], start_response: object) -> Any:
        # no compression: a frame is a few kB, and the server's time and memory are what is scarce
        kept = {name: value for name, value in environ.items() if name != "HTTP_SEC_WEBSOCKET_EXTENSIONS"}
        self._ws = _Connection(kept, self._limit)
        try:
            return self._handler(self)
        finally:
            self._ws.hang_up()

    def wait(self) -> str | bytes | None:
        """The next message that the guard lets pass; None at the end."""
        while True:
            try:
                message = self._ws.receive(timeout=self._guard.patience)
            except simple_websocket.ConnectionClosed:
                return None
            verdict = "end" if message is None else self._guard.hears(message)
            if verdict == "end":
                self._ws.part(CloseReason.POLICY_VIOLATION)
                return None
            if verdict == "pass":
                found: str | bytes = message
                return found

    def send(self, message: str) -> None:
        """Write a message whole; OSError when the peer is gone or takes nothing."""
        try:
            self._ws.send(message)
        except simple_websocket.ConnectionClosed as closed:
            raise ConnectionAbortedError("the websocket is closed") from closed
        except OSError:
            self._ws.hang_up()  # half a frame may be out: nothing sensible can follow
            raise
        if self._guard.says(message):
            self._ws.part(CloseReason.POLICY_VIOLATION)

    def close(self) -> None:
        """Say good-bye if the peer listens, and close."""
        self._ws.part(CloseReason.NORMAL_CLOSURE)


class _Connection(simple_websocket.Server):  # type: ignore[misc]
    """simple-websocket's state machine over a Line."""

    def __init__(self, environ: dict[str, Any], limit: int) -> None:
        super().__init__(
            environ,
            max_message_size=limit,
            thread_class=_Reader,
            event_class=gevent.event.Event,
            selector_class=gevent.selectors.DefaultSelector,
        )

    @property
    def sock(self) -> Line | None:
        """The socket, as the base class asks for it."""
        return self._line

    @sock.setter
    def sock(self, plain: Any) -> None:
        self._line = None if plain is None else Line(plain)

    def part(self, why: CloseReason) -> None:
        """A close frame, unless the line is stuck; then the end."""
        if self.connected and self._line is not None and not self._line.busy:
            with suppress(OSError, LocalProtocolError):
                super().close(why)
        self.hang_up()

    def hang_up(self) -> None:
        """Close the socket for both, whoever waits on it; may be called twice."""
        self.connected = False
        if self._line is not None:
            self._line.hang_up()
        self.event.set()


class _Reader(gevent.Greenlet):  # type: ignore[misc]
    """threading.Thread's face on a greenlet."""

    def __init__(self, target: Callable[[], None]) -> None:
        super().__init__(target)


class Line:
    """A gevent socket whose `send` sends all, one sender at a time, and whose `recv` keeps to a measure."""

    def __init__(self, plain: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._plain = plain
        self._clock = clock
        self._turn = BoundedSemaphore()
        self._credit, self._at = float(BYTES_AT_ONCE), clock()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)

    @property
    def busy(self) -> bool:
        """Is somebody sending?"""
        return bool(self._turn.locked())

    def send(self, data: bytes) -> int:
        """All of `data`; TimeoutError when none of it was taken for PATIENCE_S."""
        rest = memoryview(data)
        with self._turn:
            while rest:
                with gevent.Timeout(PATIENCE_S, TimeoutError(f"the peer took no byte for {PATIENCE_S:g} s")):
                    rest = rest[self._plain.send(rest) :]
        return len(data)

    def recv(self, size: int) -> bytes:
        """What came; ConnectionAbortedError when more came than may."""
        gevent.sleep(0)  # a peer that always has more to say must not keep the others from speaking
        data: bytes = self._plain.recv(size)
        now = self._clock()
        self._credit = min(BYTES_AT_ONCE, self._credit + (now - self._at) * BYTES_A_SECOND) - len(data)
        self._at = now
        if self._credit < 0:
            raise ConnectionAbortedError("the peer sends more than it may")
        return data

    def hang_up(self) -> None:
        """Wake whoever reads or writes: there is nothing more."""
        with suppress(OSError):
            self._plain.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the descriptor back."""
        self._plain.close()

    def fileno(self) -> int:
        """For selectors."""
        number: int = self._plain.fileno()
        return number
