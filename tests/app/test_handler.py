"""The handler's framing rules, over a real server on a free port with a toy application."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gevent
import gevent.event
import pytest
from gevent import socket as green

from app.serving import handler, request_body
from app.serving.connections import Connections
from app.serving.handler import Server


def echo(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    try:
        body = environ["wsgi.input"].read()
    except TimeoutError:
        start_response("408 Request Timeout", [("Connection", "close")])
        return [b"late"]
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [environ["REQUEST_METHOD"].encode() + b" " + body]


@contextmanager
def serving(application: Any, connections: Connections | None = None) -> Iterator[Server]:
    listener = green.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(16)
    served = Server(listener, application, connections)
    served.start()
    yield served
    served.stop(timeout=1)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(echo) as served:
        yield served


def ask(server: Server, request: bytes, patience: float = 5.0) -> bytes:
    """Everything the server answers until it closes, or 0.3 s of silence."""
    with green.create_connection(server.address) as sock, gevent.Timeout(patience):
        sock.sendall(request)
        sock.settimeout(0.3)
        data = b""
        try:
            while piece := sock.recv(65536):
                data += piece
        except (TimeoutError, ConnectionError):
            pass
        return data


HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (HEAD + b"Content-Length: 2\r\nTransfer-Encoding: xchunked\r\n\r\n{}", 400),
        (HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
        (HEAD + b"Content-Length: -1\r\n\r\n{}", 400),
        (HEAD + b"Content-Length: +2\r\n\r\n{}", 400),
        (HEAD + b"Content-Length: 1_0\r\n\r\n{}", 400),
        (HEAD + b"Host: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET http://evil.test/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (HEAD + b"X-A: a\x00b\r\n\r\n", 400),
        (HEAD + b"X-A: a\r\n folded\r\n\r\n", 400),
        (HEAD + b"no colon here\r\n\r\n", 400),
        (HEAD + b"X-A : spaced\r\n\r\n", 400),
        (HEAD + b"X-A: " + b"a" * 100_000 + b"\r\n\r\n", 431),
        (HEAD + b"X-A: " + b"a" * 40_000 + b"\r\n\r\n", 431),
        (HEAD + b"X-B: 1\r\n" * 200 + b"\r\n", 431),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        (HEAD.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/0.9\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\nHost: x\n\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\n\n", 400),
        (b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET\xa0/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /\x0b HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"G\x01T / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (HEAD + b"X-A: a\rTransfer-Encoding: chunked\r\n\r\n", 400),
        (HEAD + b"X-A: a\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (HEAD + b": nameless\r\n\r\n", 400),
        (HEAD + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n", 400),
        (HEAD + b"Content-Length: 2, 2\r\n\r\n{}", 400),
        (HEAD + b"Content-Length: 0x2\r\n\r\n{}", 400),
        (HEAD + b"Content-Length: \xb2\r\n\r\n{}", 400),
        (HEAD + b"Content-Length: " + b"9" * 400 + b"\r\n\r\n{}", 400),
        (HEAD + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400),
        (HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
        (HEAD + b"Expect: 200-ok\r\nContent-Length: 2\r\n\r\n{}", 417),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    ],
)
def test_ambiguous_framing_is_refused_and_the_connection_closed(server: Server, request_bytes: bytes, status: int) -> None:
    data = ask(server, request_bytes)
    assert data.startswith(b"HTTP/1.1 %d " % status) and data.count(b"X-Request-Id") == 1
    head, _, body = data.partition(b"\r\n\r\n")
    assert json.loads(body)["error"]["code"] == "bad_framing" and b"X-Request-Id: req_" in head and b"Connection: close" in head


@pytest.mark.parametrize(
    "body",
    [
        b"ZZ\r\n{}\r\n0\r\n\r\n",
        b"\r\n{}\r\n0\r\n\r\n",
        b";a=b\r\n{}\r\n0\r\n\r\n",
        b"-2\r\n{}\r\n0\r\n\r\n",
        b"+2\r\n{}\r\n0\r\n\r\n",
        b"0x2\r\n{}\r\n0\r\n\r\n",
        b"2_0\r\n{}\r\n0\r\n\r\n",
        b"FFFFFFFFFFFFFFFFF\r\n{}",
        b"2\n{}\r\n0\r\n\r\n",
        b"2;\n{}\r\n{}\r\n0\r\n\r\n",
        b"2;" + b"x" * 10_000 + b"\r\n{}\r\n0\r\n\r\n",
        b"2\r\n{}}\r\n0\r\n\r\n",
        b"2\r\n{}X\n0\r\n\r\n",
        b"2\r\n{}\r\n0\r\nX-A : b\r\n\r\n",
        b"2\r\n{}\r\n0\r\nno colon\r\n\r\n",
        b"1\r\nx\r\n" * (request_body.MAX_CHUNKS + 1) + b"0\r\n\r\n",
        b"2\r\n{}\r\n0\r\n" + b"X-A: b\r\n" * 100 + b"\r\n",
    ],
)
def test_broken_chunks_are_a_400_and_nothing_after_them_is_a_request(server: Server, body: bytes) -> None:
    smuggled = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
    data = ask(server, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body + smuggled)
    assert data.startswith(b"HTTP/1.1 400 ") and data.count(b"HTTP/1.1 ") == 1
    assert b"Connection: close" in data and b"Content-Security-Policy" in data


@pytest.mark.parametrize(
    "body", [b"Content-Length: 5\r\n\r\nhi", b"Transfer-Encoding: chunked\r\n\r\n5\r\nhi", b"Content-Length: 5\r\n\r\n"]
)
def test_a_body_that_ends_early_is_no_body(server: Server, body: bytes) -> None:
    with green.create_connection(server.address) as sock, gevent.Timeout(5):
        sock.sendall(HEAD + body)
        sock.shutdown(green.SHUT_WR)
        data = b"".join(iter(lambda: sock.recv(65536), b""))
    assert b"POST " not in data and data.count(b"HTTP/1.1 ") <= 1


def test_chunks_of_any_cut_are_one_body(server: Server) -> None:
    chunks = b"1;a=b\r\nh\r\n00001\r\ni\r\nA\r\n0123456789\r\n0;x\r\nX-Trailer: ignored\r\n\r\n"
    data = ask(server, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"POST hi0123456789" in data and data.endswith(b"GET ")


def test_a_request_that_asks_for_an_upgrade_is_still_read_by_its_length(server: Server) -> None:
    data = ask(server, HEAD + b"Upgrade: websocket\r\nConnection: upgrade\r\nContent-Length: 2\r\n\r\nhi" + HEAD + b"\r\n")
    assert data.endswith(b"POST hi") and data.count(b"HTTP/1.1 ") == 1


def test_a_client_that_waits_for_100_continue_gets_it_when_its_body_is_read(server: Server) -> None:
    data = ask(server, HEAD + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\nhi")
    assert data.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK") and data.endswith(b"POST hi")


def test_a_failing_application_answers_the_error_object_with_every_header(capfd: pytest.CaptureFixture[str]) -> None:
    def failing(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        raise RuntimeError("the secret of /home/somebody")

    with serving(failing) as server:
        data = ask(server, HEAD + b"\r\n")
    head, _, body = data.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 500 ") and json.loads(body)["error"]["code"] == "internal"
    assert b"X-Request-Id: req_" in head and b"frame-ancestors 'none'" in head and b"secret" not in data
    assert "the secret" in capfd.readouterr().err  # the log has it


def test_what_finds_no_room_is_told_so_and_makes_place_when_it_ends() -> None:
    with serving(echo, Connections(0, 0, 2)) as server:
        first, second = green.create_connection(server.address), green.create_connection(server.address)
        gevent.sleep(0.05)
        data = ask(server, HEAD + b"\r\n")
        assert data.startswith(b"HTTP/1.1 503 ") and b"Retry-After: 1\r\n" in data and b"too_many_connections" in data
        first.close()
        with gevent.Timeout(5):
            while server.connections.local == 2:
                gevent.sleep(0.01)
        assert b"POST " in ask(server, HEAD + b"\r\n")
        second.close()


def test_plain_requests_are_served_on_one_connection(server: Server) -> None:
    data = ask(
        server, HEAD + b"Content-Length: 2\r\n\r\nhi" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nyou\r\n0\r\n\r\n"
    )
    assert b"POST hi" in data and data.endswith(b"POST you")


def test_a_slow_head_is_cut(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "HEAD_S", 0.05)
    for begun in (b"POST", HEAD, HEAD + b"X-A: b\r\n"):
        data = ask(server, begun)
        assert data.startswith(b"HTTP/1.1 408 ") and b"X-Request-Id" in data and b"Connection: close" in data


def test_a_slow_body_raises_where_it_is_read(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "BODY_S", 0.05)
    monkeypatch.setattr(request_body, "DISCARD_S", 0.05)
    data = ask(server, HEAD + b"Content-Length: 10\r\n\r\nhi")
    assert data.startswith(b"HTTP/1.1 408 ") and data.endswith(b"late")


def test_a_silent_connection_is_closed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "HEAD_S", 0.05)
    assert ask(server, b"") == b""


def test_a_kept_connection_may_rest_longer_than_a_head_but_not_for_ever(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "HEAD_S", 0.05)
    monkeypatch.setattr(handler, "IDLE_S", 0.6)
    with green.create_connection(server.address) as sock, gevent.Timeout(5):
        for _ in range(2):
            sock.sendall(HEAD + b"\r\n")
            assert sock.recv(65536).endswith(b"POST ")
            gevent.sleep(0.15)
        assert sock.recv(65536) == b""


def test_a_client_that_does_not_read_an_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    done = gevent.event.Event()

    def endless(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        try:
            while True:
                yield b"x" * 1_000_000
        finally:
            done.set()

    monkeypatch.setattr(handler, "SEND_S", 0.1)
    with serving(endless) as server, green.create_connection(server.address) as sock:
        sock.sendall(HEAD + b"\r\n")
        assert done.wait(10)
