"""TokenStream over real socket pairs: pending, open, ended; slow and vanished clients. No greenlet waits for a fixed time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gevent
import pytest
from gevent import socket as green

from app.serving.token_streams import Patience, TokenStream

PATIENCE = 5.0


@pytest.fixture
def pair() -> Iterator[tuple[Any, Any]]:
    ours, theirs = green.socketpair()
    with ours, theirs:
        yield ours, theirs


def serve(stream: TokenStream, flush: Any = lambda: None) -> gevent.Greenlet:
    """Run the stream's body as the server would; the greenlet's value is what ended it."""

    def run() -> str:
        try:
            assert list(stream.body(flush)) == []
        except ConnectionAbortedError as error:
            return str(error)
        return "done"

    greenlet = gevent.spawn(run)
    gevent.sleep(0)
    return greenlet


def read(sock: Any, size: int) -> bytes:
    data = b""
    with gevent.Timeout(PATIENCE):
        while len(data) < size:
            data += sock.recv(1 << 16)
    return data


def test_nothing_leaves_before_the_headers(pair: tuple[Any, Any]) -> None:
    ours, theirs = pair
    stream = TokenStream(ours, chunked=False)
    stream.push(b"early ")
    theirs.setblocking(False)
    with pytest.raises(BlockingIOError):
        theirs.recv(1)
    served = serve(stream, flush=lambda: ours.sendall(b"HEAD "))
    theirs.setblocking(True)
    assert read(theirs, 11) == b"HEAD early "
    stream.push(b"late")
    stream.end()
    assert read(theirs, 4) == b"late" and served.get(timeout=PATIENCE) == "done"


def test_an_open_stream_is_written_by_the_dispatcher_itself(pair: tuple[Any, Any]) -> None:
    ours, theirs = pair
    stream = TokenStream(ours)
    served = serve(stream)
    stream.push(b"data: x\n\n")
    theirs.setblocking(False)
    assert theirs.recv(100) == b"9\r\ndata: x\n\n\r\n", "it must be out before any other greenlet runs"
    stream.end()
    assert served.get(timeout=PATIENCE) == "done"


def test_a_late_reader_gets_everything_in_order(pair: tuple[Any, Any]) -> None:
    ours, theirs = pair
    stream = TokenStream(ours, chunked=False, patience=Patience(behind_bytes=1 << 30, most_bytes=1 << 30))
    served = serve(stream)
    pieces = [b"%06d" % number * 100 for number in range(5000)]
    for piece in pieces:
        stream.push(piece)
    stream.end()
    assert read(theirs, 3_000_000) == b"".join(pieces)
    assert served.get(timeout=PATIENCE) == "done" and stream.lost is None


def test_a_client_that_does_not_read_is_cut_at_the_byte_bound(pair: tuple[Any, Any]) -> None:
    ours, _theirs = pair
    stream = TokenStream(ours)
    served = serve(stream)
    pushed = 0
    while stream.lost is None and pushed < 10 << 20:
        stream.push(b"x" * 4096)
        pushed += 4096
    assert stream.lost == "slow_client" and served.get(timeout=PATIENCE) == "slow_client"
    assert pushed < 3 << 20, "our bound, not the kernel's, must hold"


def test_a_burst_that_nobody_could_have_read_is_kept_and_one_that_stays_is_not(pair: tuple[Any, Any]) -> None:
    ours, theirs = pair
    now = [0.0]
    stream = TokenStream(ours, chunked=False, patience=Patience(64 << 10, 30.0), clock=lambda: now[0])
    served = serve(stream)
    for _ in range(2):  # the engine was ahead: a megabyte in an instant, twice
        stream.push(b"x" * (1 << 20))
        assert stream.lost is None
        read(theirs, 1 << 20)
        now[0] += 5.0
        gevent.sleep(0.001)
    stream.push(b"x" * (1 << 20))
    now[0] += 1.1
    stream.push(b"one more")
    assert stream.lost == "slow_client" and served.get(timeout=PATIENCE) == "slow_client"


def test_a_client_that_stays_behind_is_cut_at_the_age_bound(pair: tuple[Any, Any]) -> None:
    ours, _theirs = pair
    now = [0.0]
    stream = TokenStream(ours, patience=Patience(1 << 30, 30.0, most_bytes=1 << 30), clock=lambda: now[0])
    served = serve(stream)
    for _ in range(100):
        stream.push(b"x" * 4096)
    assert stream.lost is None
    now[0] = 31.0
    stream.push(b"one more")
    assert stream.lost == "slow_client" and served.get(timeout=PATIENCE) == "slow_client"


def test_a_client_is_cut_at_the_age_bound_while_nothing_more_is_pushed(pair: tuple[Any, Any]) -> None:
    ours, _theirs = pair
    stream = TokenStream(ours, patience=Patience(1 << 30, 0.05, most_bytes=1 << 30))
    served = serve(stream)
    for _ in range(100):
        stream.push(b"x" * 4096)
    stream.end()
    assert served.get(timeout=PATIENCE) == "slow_client"


def test_a_reader_that_keeps_taking_may_stay_behind(pair: tuple[Any, Any]) -> None:
    ours, theirs = pair
    now = [0.0]
    stream = TokenStream(ours, chunked=False, patience=Patience(1 << 30, 30.0, most_bytes=1 << 30), clock=lambda: now[0])
    served = serve(stream)
    held = 100 * 4096
    for _ in range(100):
        stream.push(b"x" * 4096)
    for _ in range(20):  # each round takes more than was behind at its beginning, and as much comes again
        now[0] += 20.0
        read(theirs, held // 2)
        gevent.sleep(0.001)
        for _ in range(50):
            stream.push(b"x" * 4096)
        assert stream.lost is None
    stream.end()
    with gevent.Timeout(PATIENCE):
        while served.ready() is False:
            theirs.recv(1 << 16)
    assert served.get() == "done"


def test_the_kernel_takes_little_of_what_a_client_does_not_read() -> None:
    with green.socket() as listener, green.socket() as theirs:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        theirs.setsockopt(green.SOL_SOCKET, green.SO_RCVBUF, 4096)
        theirs.connect(listener.getsockname())
        ours, _ = listener.accept()
        with ours:
            stream = TokenStream(ours, patience=Patience(64 << 10, 30.0, burst_s=0.0, most_bytes=64 << 10))
            served = serve(stream)
            pushed = 0
            while stream.lost is None:
                stream.push(b"x" * 256)
                pushed += 256
            assert served.get(timeout=PATIENCE) == "slow_client" and pushed < 256 << 10


@pytest.mark.parametrize("half", [False, True])
def test_a_hang_up_is_seen_while_nothing_flows(pair: tuple[Any, Any], half: bool) -> None:
    ours, theirs = pair
    stream = TokenStream(ours)
    served = serve(stream)
    if half:
        theirs.shutdown(green.SHUT_WR)
    else:
        theirs.close()
    assert served.get(timeout=PATIENCE) == "client_gone" and stream.lost == "client_gone"


def test_a_hang_up_is_seen_while_waiting_unstreamed(pair: tuple[Any, Any]) -> None:
    ours, theirs = pair
    stream = TokenStream(ours)
    waiting = gevent.spawn(stream.wait, lambda: False)
    gevent.sleep(0)
    theirs.close()
    assert waiting.get(timeout=PATIENCE) is False and stream.lost == "client_gone"
    stream.close()


def test_pipelined_bytes_are_no_hang_up(pair: tuple[Any, Any]) -> None:
    ours, theirs = pair
    stream = TokenStream(ours)
    done: list[bool] = []
    waiting = gevent.spawn(stream.wait, lambda: bool(done))
    theirs.sendall(b"GET / HTTP/1.1\r\n")
    gevent.sleep(0.01)
    assert not waiting.ready() and stream.lost is None
    done.append(True)
    stream.wake()
    assert waiting.get(timeout=PATIENCE) is True
    stream.close()


def test_nothing_is_sent_after_the_client_is_lost(pair: tuple[Any, Any]) -> None:
    ours, theirs = pair
    stream = TokenStream(ours)
    served = serve(stream)
    theirs.close()
    assert served.get(timeout=PATIENCE) == "client_gone"
    stream.push(b"x" * 1000)
    stream.end()
    assert stream.lost == "client_gone"


def test_a_wait_can_run_out(pair: tuple[Any, Any]) -> None:
    stream = TokenStream(pair[0])
    assert stream.wait(lambda: False, timeout=0.01) is False and stream.lost is None
    stream.close()


def test_tokens_for_a_reader_that_stopped_do_not_wake_its_greenlet_until_there_is_room(pair: tuple[Any, Any]) -> None:
    ours, theirs = pair
    stream = TokenStream(ours, chunked=False)
    served = serve(stream)
    stream.push(b"x" * (1 << 20))
    gevent.sleep(0)
    turns = 0
    drain = stream._drain

    def counted() -> None:
        nonlocal turns
        turns += 1
        drain()

    stream._drain = counted  # type: ignore[method-assign]
    for _ in range(50):
        stream.push(b"y")
        gevent.sleep(0)
    assert turns == 0
    stream.end()
    assert read(theirs, (1 << 20) + 50).endswith(b"x" + b"y" * 50) and served.get(timeout=PATIENCE) == "done"
    assert turns > 0
