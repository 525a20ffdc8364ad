"""Server-sent events, taken apart as the bytes come. Knows no socket, no clock and no JSON.

Invariant: the events do not depend on where the byte stream was cut, even inside CRLF or a UTF-8 character.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One dispatched event: `data` lines joined by a newline; `event` and `id` as the stream named them."""

    data: bytes
    event: str = ""
    id: str = ""


class SseSplitter:
    """Feed bytes, get whole events. Lines end in LF, CRLF or CR; a blank line dispatches; comments vanish."""

    __slots__ = ("_buffer", "_data", "_event", "_id", "_first")

    def __init__(self) -> None:
        self._buffer = b""
        self._data: list[bytes] = []
        self._event = ""
        self._id = ""
        self._first = True

    def feed(self, data: bytes) -> list[SseEvent]:
        buffer = self._buffer + data
        # A CR at the very end may be half of a CRLF: it waits for the next byte.
        held = buffer[-1:] if buffer.endswith(b"\r") else b""
        lines = (buffer[: len(buffer) - len(held)]).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._buffer = lines.pop() + held
        return self._take(lines)

    def close(self) -> list[SseEvent]:
        """The stream has ended; a last event without its blank line still counts (some servers end so)."""
        rest = self._buffer.rstrip(b"\r")
        self._buffer = b""
        return self._take([rest, b""] if rest else [b""])

    def _take(self, lines: list[bytes]) -> list[SseEvent]:
        events = []
        for line in lines:
            if self._first:
                self._first = False
                line = line.removeprefix(b"\xef\xbb\xbf")
            if line:
                self._field(line)
            elif self._data:
                events.append(SseEvent(b"\n".join(self._data), self._event, self._id))
                self._data, self._event = [], ""
            else:
                self._event = ""
        return events

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
