"""The websocket's line: written whole to slow readers, given up when nothing is taken, and measured in what it brings."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import gevent
import gevent.socket
import pytest

from app.serving import websocket
from app.serving.websocket import BYTES_AT_ONCE, Line


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def ends() -> Iterator[tuple[Line, gevent.socket.socket, Clock]]:
    """Our line, the peer's end of it, and the line's clock."""
    near, far = gevent.socket.socketpair()
    clock = Clock()
    with near, far:
        yield Line(near, clock), far, clock


def test_a_slow_reader_gets_every_message_whole(ends: tuple[Line, gevent.socket.socket, Clock]) -> None:
    line, far, _ = ends
    messages = [bytes([index]) * 700_000 for index in range(3)]
    writers = [gevent.spawn(line.send, message) for message in messages]
    read = b""
    while len(read) < 2_100_000:
        gevent.sleep(0)
        read += far.recv(30_000)
    gevent.joinall(writers, raise_error=True)
    assert sorted(read[at : at + 700_000] for at in range(0, 2_100_000, 700_000)) == messages


def test_a_reader_that_takes_nothing_is_given_up(
    ends: tuple[Line, gevent.socket.socket, Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    line, _, _ = ends
    monkeypatch.setattr(websocket, "PATIENCE_S", 0.05)
    with pytest.raises(TimeoutError):
        line.send(b"x" * 10_000_000)
    assert not line.busy


def test_more_than_its_measure_ends_a_line_and_its_measure_does_not(ends: tuple[Line, gevent.socket.socket, Clock]) -> None:
    line, far, clock = ends
    for _ in range(40):
        far.sendall(b"x" * 4096)
        clock.now += 0.25
        assert len(line.recv(4096)) == 4096
    with pytest.raises(ConnectionAbortedError):
        for _ in range(BYTES_AT_ONCE // 4096 + 1):
            far.sendall(b"x" * 4096)
            line.recv(4096)


def test_hanging_up_wakes_who_reads_and_may_be_done_twice(ends: tuple[Line, gevent.socket.socket, Clock]) -> None:
    line, far, _ = ends
    reader = gevent.spawn(line.recv, 10)
    gevent.sleep(0)
    line.hang_up()
    line.hang_up()
    assert reader.get(timeout=5) == b"" and far.recv(10) == b""


def test_the_kernel_hides_little_of_what_was_not_read(ends: tuple[Line, gevent.socket.socket, Clock]) -> None:
    line, _, _ = ends
    assert line._plain.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) <= 2 * websocket.SEND_BUFFER
