"""The body of a request, by length or in chunks, within a time. Knows no socket but for its "100 Continue".

Invariants: no byte of the next request is taken for this one's; a body whose framing is broken raises BrokenBody, one that
is late raises TimeoutError, and after either nothing more can be read from this connection.
"""

from __future__ import annotations

import contextlib
import re
import time
from typing import Any

import gevent

BODY_S = 30.0  # the whole body
DISCARD_S = 1.0  # how long a refused body is read and thrown away, so that the client reads our answer, not its own error
DISCARD_BYTES = 32 << 20
MAX_CHUNK_LINE = 512
MAX_TRAILERS = 16
MAX_CHUNKS = 20_000  # a sender that is always ahead of us holds the hub: so many take about 0.1 s
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})[\t ]*(?:;[\x09\x20-\x7e\x80-\xff]*)?\r\n")
_TRAILER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\x09\x20-\x7e\x80-\xff]*\r\n")
_PIECE = 1 << 16
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class BrokenBody(OSError):
    """Nobody can tell where the body ends."""


class Body:
    """`length`: None for chunks. `waiting`: the socket of a client that sends its body only after "100 Continue".

    `rfile` is the connection's buffered reader; the websocket library takes its socket from there.
    """

    def __init__(self, rfile: Any, length: int | None, waiting: Any = None) -> None:
        self.rfile = rfile
        self._chunked = length is None
        self._left = length or 0  # of the body, or of the chunk at hand
        self._chunks = 0
        self._ended = length == 0
        self._broken = False
        self._waiting = waiting
        self._ends_at = time.monotonic() + BODY_S

    @property
    def exhausted(self) -> bool:
        """Does the next request's head follow?"""
        return self._ended and not self._broken

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, b"" at the end; all of them without a size."""
        late = TimeoutError(f"the body did not come within {BODY_S:g} s")
        parts = []
        try:
            with gevent.Timeout(max(0.001, self._ends_at - time.monotonic()), late):
                self._invite()
                while size and not self._ended and (piece := self._piece(size)):
                    parts.append(piece)
                    size -= len(piece) if size > 0 else 0
        except OSError:
            self._broken = True
            raise
        return b"".join(parts)

    def readline(self, size: int = -1) -> bytes:
        """WSGI asks for it; nothing of ours reads a body by lines."""
        raise BrokenBody("a body is read by size")

    def _discard(self) -> None:
        """The server's hook after an answer: read the rest and throw it away, within bounds."""
        if self._ended or self._broken or self._waiting is not None:
            return
        self._ends_at = time.monotonic() + DISCARD_S
        left = DISCARD_BYTES
        with contextlib.suppress(OSError):
            while left > 0 and (data := self.read(_PIECE)):
                left -= len(data)

    def _invite(self) -> None:
        if self._waiting is not None and not self._ended:
            self._waiting.sendall(_CONTINUE)
        self._waiting = None

    def _piece(self, size: int) -> bytes:
        if self._chunked and not self._left:
            self._next_chunk()
            if self._ended:
                return b""
        wanted = self._left if size < 0 else min(size, self._left)
        data: bytes = self.rfile.read(min(wanted, _PIECE))
        if not data:
            raise BrokenBody("the connection ended within the body")
        self._left -= len(data)
        if not self._left:
            self._end_of_piece()
        return data

    def _end_of_piece(self) -> None:
        if not self._chunked:
            self._ended = True
        elif self.rfile.read(2) != b"\r\n":
            raise BrokenBody("a chunk is longer than it said")

    def _next_chunk(self) -> None:
        self._chunks += 1
        if self._chunks > MAX_CHUNKS:
            raise BrokenBody(f"the body has more than {MAX_CHUNKS} chunks")
        match = _CHUNK_LINE.fullmatch(self.rfile.readline(MAX_CHUNK_LINE))
        if match is None:
            raise BrokenBody("a chunk's size is not a hexadecimal number")
        self._left = int(match[1], 16)
        if self._left:
            return
        for _ in range(MAX_TRAILERS):
            line = self.rfile.readline(MAX_CHUNK_LINE)
            if line == b"\r\n":
                self._ended = True
                return
            if not _TRAILER.fullmatch(line):
                break
        raise BrokenBody("the trailer is malformed or too long")
