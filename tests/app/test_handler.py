"""The handler's framing rules, over a real server on a free port with a toy application."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import gevent
import pytest
from gevent import socket as green

from app.serving import handler
from app.serving.handler import Server


def echo(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    try:
        body = environ["wsgi.input"].read()
    except TimeoutError:
        start_response("408 Request Timeout", [("Connection", "close")])
        return [b"late"]
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [environ["REQUEST_METHOD"].encode() + b" " + body]


@pytest.fixture
def server() -> Iterator[Server]:
    listener = green.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(16)
    served = Server(listener, echo)
    served.start()
    yield served
    served.stop(timeout=1)


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
        (HEAD + b"Content-Length: 2\r\nTransfer-Encoding: xchunked\r\n\r\n{}", 501),
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
    ],
)
def test_ambiguous_framing_is_refused_and_the_connection_closed(server: Server, request_bytes: bytes, status: int) -> None:
    data = ask(server, request_bytes)
    assert data.startswith(b"HTTP/1.1 %d " % status) and data.count(b"X-Request-Id") == 1
    head, _, body = data.partition(b"\r\n\r\n")
    assert json.loads(body)["error"]["code"] == "bad_framing" and b"X-Request-Id: req_" in head and b"Connection: close" in head


def test_plain_requests_are_served_on_one_connection(server: Server) -> None:
    data = ask(
        server, HEAD + b"Content-Length: 2\r\n\r\nhi" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nyou\r\n0\r\n\r\n"
    )
    assert b"POST hi" in data and data.endswith(b"POST you")


def test_a_slow_head_is_cut(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "HEAD_S", 0.05)
    assert ask(server, HEAD).startswith(b"HTTP/1.1 408 ")


def test_a_slow_body_raises_where_it_is_read(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "BODY_S", 0.05)
    monkeypatch.setattr(handler, "DISCARD_S", 0.05)
    data = ask(server, HEAD + b"Content-Length: 10\r\n\r\nhi")
    assert data.startswith(b"HTTP/1.1 408 ") and data.endswith(b"late")


def test_a_silent_connection_is_closed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "IDLE_S", 0.05)
    assert ask(server, b"") == b""
