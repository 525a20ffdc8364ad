"""Outlets: the texts of one step, to the sockets of all their streams in one pass. Knows chunks, no token and no engine.

With many streams nearly all that a token costs is here, most of it the kernel's `send`. So the bytes are made first and the
system calls come with as little as can be between them: each call drives out of the processor's caches what the next line
of ours needs, and every object more that has to be fetched again is felt.
Invariant: what leaves is what `stream.push` of the same bytes would have sent, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from app.serving.token_streams import SIZES, SMALL, TokenStream

_GONE = -1


class Outlet:
    """Where the texts of one answer leave: each as `write` makes it, between `before` and `after`.

    `socket`: lent by the stream, to be written to; None while what comes must wait its turn in the stream.
    """

    __slots__ = ("stream", "socket", "before", "write", "after", "tail", "around")

    def __init__(self, stream: TokenStream, before: bytes, write: Callable[[str], bytes], after: bytes) -> None:
        self.stream = stream
        self.socket: Any = None
        self.before, self.write, self.after = before, write, after
        self.tail, self.around = after + b"\r\n", len(before) + len(after)
        stream.lend_to(self._lent)

    def _lent(self, socket: Any) -> None:
        self.socket = socket


def push_each(outlets: Sequence[Outlet], texts: Sequence[str]) -> None:
    """Have each text leave by its outlet, now or as soon as may be; no outlet twice."""
    writing: list[Outlet] = []
    sockets: list[Any] = []
    chunks: list[bytes] = []
    sizes: list[int] = []
    for outlet, text in zip(outlets, texts, strict=True):
        written = outlet.write(text)
        socket, size = outlet.socket, outlet.around + len(written)
        if socket is None or size >= SMALL:
            outlet.stream.push(b"".join((outlet.before, written, outlet.after)))
            continue
        chunk = b"".join((SIZES[size], outlet.before, written, outlet.tail))
        writing.append(outlet)
        sockets.append(socket)
        chunks.append(chunk)
        sizes.append(len(chunk))
    sent = _send_each(sockets, chunks)
    if sent != sizes:
        _hand_back(writing, chunks, sent)


def _send_each(sockets: list[Any], chunks: list[bytes]) -> list[int]:
    """What each socket took of its chunk; _GONE where it takes no more."""
    sent: list[int] = []
    for socket, chunk in zip(sockets, chunks, strict=True):
        try:
            sent.append(socket.send(chunk))
        except BlockingIOError:
            sent.append(0)
        except OSError:
            sent.append(_GONE)
    return sent


def _hand_back(outlets: list[Outlet], chunks: list[bytes], sent: list[int]) -> None:
    """To each stream what its socket did not take."""
    for outlet, chunk, taken in zip(outlets, chunks, sent, strict=True):
        if taken == _GONE:
            outlet.stream.lose("client_gone")
        elif taken < len(chunk):
            outlet.stream.keep(chunk[taken:])
