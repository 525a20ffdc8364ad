"""Reading an HTTP/1.1 response as its bytes come: head, then body by chunks, by length, or until the end.

Pure: no socket, no clock. Invariant: what comes out does not depend on where the bytes were cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MAX_HEAD = 65_536


class HttpError(Exception):
    """The peer did not speak HTTP/1.1."""


@dataclass(frozen=True, slots=True)
class Head:
    """Status line and headers (names in lower case)."""

    version: str
    status: int
    headers: Mapping[str, str]

    @property
    def keep_alive(self) -> bool:
        connection = self.headers.get("connection", "").lower()
        return "close" not in connection and (self.version == "HTTP/1.1" or "keep-alive" in connection)


def split_head(buffer: bytes) -> tuple[Head, bytes] | None:
    """The head and what follows it, or None while it is not whole; 1xx heads are skipped."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        if len(buffer) > MAX_HEAD:
            raise HttpError("the response's head is too long")
        return None
    lines = buffer[:end].decode("latin-1").split("\r\n")
    version, _, rest = lines[0].partition(" ")
    if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
        raise HttpError(f"not an HTTP/1.1 status line: {lines[0][:80]!r}")
    pairs = (line.partition(":") for line in lines[1:])
    head = Head(version, int(rest[:3]), {name.strip().lower(): value.strip() for name, _, value in pairs})
    if 100 <= head.status < 200:
        return split_head(buffer[end + 4 :])
    return head, buffer[end + 4 :]


class Body:
    """The body's bytes without their framing. `done` once its end was seen; a body without length ends at EOF."""

    __slots__ = ("done", "until_close", "_buffer", "_left", "_chunked", "_state")

    def __init__(self, head: Head) -> None:
        self._chunked = "chunked" in head.headers.get("transfer-encoding", "").lower()
        length = head.headers.get("content-length")
        self.until_close = not self._chunked and length is None and head.status not in (204, 304)
        if length is not None and not length.isdigit():
            raise HttpError(f"bad content-length {length!r}")
        self._left = 0 if self._chunked else int(length or 0)
        self.done = not self._chunked and not self.until_close and self._left == 0
        self._buffer = b""
        self._state = "size"

    def feed(self, data: bytes) -> bytes:
        if self._chunked:
            return self._feed_chunked(data)
        if self.until_close:
            return data
        taken = data[: self._left]
        self._left -= len(taken)
        self.done = self._left == 0
        return taken

    def end(self) -> None:
        """The peer closed: the end of a body that has no other."""
        self.done = self.done or self.until_close

    def _feed_chunked(self, data: bytes) -> bytes:
        self._buffer += data
        out = []
        while not self.done:
            if self._state == "data":
                piece, self._buffer = self._buffer[: self._left], self._buffer[self._left :]
                self._left -= len(piece)
                out.append(piece)
                if self._left:
                    break
                self._state = "after"
            line, end, rest = self._buffer.partition(b"\n")
            if not end:
                break
            self._buffer = rest
            self._line(line.strip())
        return b"".join(out)

    def _line(self, line: bytes) -> None:
        """A line between chunks: a size, the blank after a chunk, or a trailer."""
        if self._state == "after":
            self._state = "size"
        elif self._state == "trailers":
            self.done = not line
        else:
            size = line.partition(b";")[0].strip()
            try:
                self._left = int(size, 16)
            except ValueError:
                raise HttpError(f"bad chunk size {size[:20]!r}") from None
            self._state = "data" if self._left else "trailers"
