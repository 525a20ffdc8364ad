"""Outlets over real socket pairs: what leaves in one pass is what each stream would have sent by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import gevent
import orjson
import pytest
from gevent import socket as green

from app.serving.outlets import Outlet, push_each
from app.serving.token_streams import SMALL, TokenStream

PATIENCE = 5.0
BEFORE, AFTER = b'data: {"text":', b"}\n\n"
TEXTS = ["a", 'é\n"', " the", "x" * (SMALL - len(BEFORE) - len(AFTER) - 3), "y" * SMALL, "z" * 5000]


@dataclass
class Line:
    """A stream that serves a client, or that has not sent its headers yet."""

    stream: TokenStream
    outlet: Outlet
    theirs: Any
    served: gevent.Greenlet | None = None

    def serve(self) -> None:
        """Send the headers, and let others write."""

        def run() -> str:
            try:
                assert list(self.stream.body(lambda: None)) == []
            except ConnectionAbortedError as error:
                return str(error)
            return "done"

        self.served = gevent.spawn(run)
        gevent.sleep(0)

    def has(self) -> bytes:
        """What has come, without any other greenlet's turn."""
        self.theirs.setblocking(False)
        try:
            data: bytes = self.theirs._sock.recv(1 << 20)
        except BlockingIOError:
            return b""
        finally:
            self.theirs.setblocking(True)
        return data

    def read(self, size: int) -> bytes:
        """So many bytes."""
        data = b""
        with gevent.Timeout(PATIENCE):
            while len(data) < size:
                data += self.theirs.recv(1 << 16)
        return data


@pytest.fixture
def lines() -> Iterator[Any]:
    with ExitStack() as stack:

        def make(serve: bool = True, **options: Any) -> Line:
            ours, theirs = green.socketpair()
            stack.enter_context(ours)
            stack.enter_context(theirs)
            stream = TokenStream(ours, **options)
            line = Line(stream, Outlet(stream, BEFORE, orjson.dumps, AFTER), theirs)
            if serve:
                line.serve()
            return line

        yield make


def chunk(text: str) -> bytes:
    """A text on the wire, made by other means."""
    data = BEFORE + orjson.dumps(text) + AFTER
    return f"{len(data):x}".encode() + b"\r\n" + data + b"\r\n"


def test_each_text_is_out_before_any_other_greenlet_runs(lines: Any) -> None:
    several = [lines() for _ in TEXTS]
    push_each([line.outlet for line in several], TEXTS)
    assert [line.has() for line in several] == [chunk(text) for text in TEXTS]


def test_without_chunks_the_same_bytes_leave_bare(lines: Any) -> None:
    line = lines(chunked=False)
    for text in TEXTS:
        push_each([line.outlet], [text])
    assert line.has() == b"".join(BEFORE + orjson.dumps(text) + AFTER for text in TEXTS)


def test_what_comes_before_the_headers_waits_and_leaves_first(lines: Any) -> None:
    line = lines(serve=False)
    push_each([line.outlet], ["early"])
    assert line.has() == b""
    line.serve()
    push_each([line.outlet], ["late"])
    assert line.has() == chunk("early") + chunk("late")


def test_who_does_not_read_holds_up_nobody_and_gets_all_in_order_once_it_reads(lines: Any) -> None:
    slow, quick = lines(), lines()
    texts = [f"{number:05d}" * 40 for number in range(2000)]
    for text in texts:
        push_each([slow.outlet, quick.outlet], [text, text])
        assert quick.has() == chunk(text)
    assert slow.outlet.socket is None, "what comes now has to wait behind what waits"
    whole = b"".join(chunk(text) for text in texts)
    assert slow.read(len(whole)) == whole
    gevent.sleep(0.01)
    push_each([slow.outlet], ["at last"])
    assert slow.has() == chunk("at last") and slow.outlet.socket is not None


class Narrow:
    """A socket that takes a part of what it is given."""

    def __init__(self, sock: Any, most: int) -> None:
        self._sock, self._most = sock, most

    def send(self, data: bytes) -> int:
        return int(self._sock.send(data[: self._most]))


def test_a_piece_that_a_socket_took_in_part_is_neither_cut_short_nor_sent_twice(lines: Any) -> None:
    line, other = lines(), lines()
    line.outlet.socket = Narrow(line.outlet.socket, 7)
    push_each([line.outlet, other.outlet], ["first", "x"])
    push_each([line.outlet, other.outlet], ["second", "y"])
    whole = chunk("first") + chunk("second")
    assert line.has() == whole[:7] and other.has() == chunk("x") + chunk("y")
    assert line.read(len(whole) - 7) == whole[7:]


def test_one_that_hung_up_is_lost_and_the_others_get_theirs(lines: Any) -> None:
    first, gone, last = lines(), lines(), lines()
    gone.theirs.shutdown(green.SHUT_RDWR)
    push_each([line.outlet for line in (first, gone, last)], ["a", "b", "c"])
    assert (first.has(), last.has()) == (chunk("a"), chunk("c"))
    assert gone.stream.lost == "client_gone" and gone.outlet.socket is None
    assert gone.served is not None and gone.served.get(timeout=PATIENCE) == "client_gone"
    push_each([gone.outlet], ["d"])


def test_a_client_that_never_reads_is_cut_at_the_bound_in_bytes(lines: Any) -> None:
    line, pushed = lines(), 0
    while line.stream.lost is None and pushed < 10 << 20:
        push_each([line.outlet], ["x" * 900])
        pushed += 900
    assert line.stream.lost == "slow_client" and pushed < 3 << 20
    assert line.served.get(timeout=PATIENCE) == "slow_client"
