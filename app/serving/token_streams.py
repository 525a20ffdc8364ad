"""TokenStream: the bytes of one answer on its way to one socket. Knows no token, no JSON and no engine.

pending  what is pushed only accumulates: status line and headers have not left
open     the dispatcher's push writes straight to the socket, without a greenlet switch; what the socket does not take is
         kept and drained by the stream's own greenlet when there is room
ended    nothing more will be pushed; the greenlet leaves once everything is out
The greenlet that owns the stream sleeps in `wait` or `body`; the others are called by others and never block. While nothing
waits, the socket is lent to who writes to many at once (outlets.py).
Invariant: bytes leave in the order of pushing, none before the headers; once `lost` is set, none leaves at all.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gevent
from gevent.event import Event
from gevent.hub import get_hub

from app.serving.handler import Watcher

SEND_BUFFER = 32 << 10  # the kernel doubles it; what a slow client does not take must come to our bounds, not hide there
WRITABLE = 2
_PIECE = 1 << 16
SMALL = 1 << 10
SIZES = [b"%x\r\n" % size for size in range(SMALL)]  # the first line of a chunk; nearly every token's is one of these


@dataclass(frozen=True, slots=True)
class Patience:
    """How far a client may fall behind.

    behind_bytes  what we keep for it; more only for `burst_s` at a time, since an engine that was ahead may hand over in an
                  instant what nobody could have read meanwhile
    most_bytes    and never more than this
    behind_s      until what was kept at one time is taken
    """

    behind_bytes: int = 256 << 10
    behind_s: float = 30.0
    burst_s: float = 1.0
    most_bytes: int = 2 << 20


class TokenStream:
    """One client. `chunked`: frame what is pushed as HTTP/1.1 chunks. `lost`: why the client will not get the rest."""

    def __init__(
        self,
        sock: Any,
        *,
        chunked: bool = True,
        patience: Patience = Patience(),  # noqa: B008 - frozen
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lost: str | None = None
        self.ended = False
        self._raw = sock._sock
        self._chunked = chunked
        self._clock = clock
        self._open = False
        self._buffer = bytearray()
        self._lend: Callable[[Any], None] = _to_nobody
        self._patience = patience
        self._mark_at = 0.0  # when the buffer was looked at, and how much of what it held then is still there
        self._mark_bytes = 0
        self._over_at: float | None = None  # since when it is further behind than it may be
        self._wake = Event()
        self._watcher = Watcher(sock, self._wake.set)

    # ---- called by the dispatcher

    def lend_to(self, lend: Callable[[Any], None]) -> None:
        """`lend(socket)` when chunks may be sent by it, past this stream, as nothing waits to be; `lend(None)` when no more."""
        self._lend = lend
        self._free()

    def push(self, data: bytes) -> None:
        """Send `data`, now or as soon as may be."""
        if self.lost is not None:
            return
        if self._chunked:
            size = len(data)
            data = b"".join((SIZES[size] if size < SMALL else b"%x\r\n" % size, data, b"\r\n"))
        if self._open and not self._buffer:
            sent = self._send(data)
            if sent == len(data) or self.lost is not None:
                return
            data = data[sent:]
        self.keep(data)

    def keep(self, data: bytes) -> None:
        """Bytes, framed, for when the socket takes some again: it did not take them, or must not have them yet."""
        waiting = bool(self._buffer)
        self._lend(None)
        self._buffer += data
        if self._open:
            self._check_behind()
            if not waiting:  # else its greenlet waits for room already: a wake-up for each token would be in vain
                self._wake.set()

    def lose(self, why: str) -> None:
        """The client gets no more, for this reason; the first one stands."""
        if self.lost is None:
            self.lost = why
            self._lend(None)
            self._buffer.clear()
            self._wake.set()

    def end(self) -> None:
        """Nothing more will be pushed."""
        self.ended = True
        self._wake.set()

    def wake(self) -> None:
        """Have the owner look again at what it waits for."""
        self._wake.set()

    # ---- called by the owner

    def wait(self, done: Callable[[], bool], timeout: float | None = None) -> bool:
        """Sleep until `done()`; False when the client left or `timeout` seconds passed before."""
        with gevent.Timeout(timeout, False):
            while not done():
                self._look()
                if self.lost is not None:
                    return False
                self._wake.wait()
                self._wake.clear()
            return True
        return False

    def body(self, flush_headers: Callable[[], None]) -> Iterator[bytes]:
        """The WSGI body: sends the headers, then lets the dispatcher write; yields nothing itself."""
        try:
            flush_headers()
            self._begin()
            self._drain_until_ended()
        except OSError:
            self.lose("client_gone")
        if self.lost is not None:  # no last chunk: the client must not take this for a whole answer
            raise ConnectionAbortedError(self.lost)
        yield from ()

    def close(self) -> None:
        """Stop watching the socket."""
        self._watcher.stop()

    # ---- inside

    def _begin(self) -> None:
        self._raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)  # else the kernel hides megabytes from our bound
        self._open = True
        self._free()

    def _free(self) -> None:
        if self._open and self._chunked and not self._buffer and self.lost is None:
            self._lend(self._raw)

    def _drain_until_ended(self) -> None:
        room = get_hub().loop.io(self._raw.fileno(), WRITABLE)
        try:
            while True:
                self._look()
                self._drain()
                if self.lost is not None or (self.ended and not self._buffer):
                    return
                if self._buffer:
                    self._check_behind()
                    room.start(self._wake.set)
                self._wake.wait(min(self._patience.behind_s / 4, self._patience.burst_s) if self._buffer else None)
                self._wake.clear()
                room.stop()
        finally:
            room.stop()
            room.close()

    def _drain(self) -> None:
        while self._buffer and self.lost is None:
            sent = self._send(bytes(self._buffer[:_PIECE]))
            if not sent:
                return
            del self._buffer[:sent]
            self._mark_bytes -= sent
        self._free()

    def _send(self, data: bytes) -> int:
        try:
            sent: int = self._raw.send(data)
            return sent
        except BlockingIOError:
            return 0
        except OSError:
            self.lose("client_gone")
            return 0

    def _look(self) -> None:
        if self.lost is None and self._watcher.gone():
            self.lose("client_gone")

    def _check_behind(self) -> None:
        """A steady reader may stay behind for ever, a stalled one may not: what counts is that old bytes leave."""
        now, behind, patience = self._clock(), len(self._buffer), self._patience
        if self._mark_bytes <= 0:
            self._mark_at, self._mark_bytes = now, behind
        if behind <= patience.behind_bytes:
            self._over_at = None
        elif self._over_at is None:
            self._over_at = now
        too_far = self._over_at is not None and now - self._over_at > patience.burst_s
        if too_far or behind > patience.most_bytes or now - self._mark_at > patience.behind_s:
            self.lose("slow_client")


def _to_nobody(_socket: Any) -> None:
    """Until somebody wants to borrow it."""
