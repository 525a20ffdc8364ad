"""HTTP/1.1 responses: framing is undone whatever the cuts; what is not HTTP is refused."""

import pytest

from loadgen.http1 import Body, Head, HttpError, split_head

CHUNKED = (
    b"HTTP/1.1 100 Continue\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Request-Id: req_1\r\n\r\n"
    b"5;name=value\r\nhello\r\nA\r\n, world!\r\n\r\n0\r\nTrailer: x\r\n\r\n"
)


def read(*pieces: bytes) -> tuple[Head, bytes, Body]:
    buffer, body, out = b"", None, b""
    head = None
    for piece in pieces:
        if body is None:
            buffer += piece
            if (found := split_head(buffer)) is None:
                continue
            head, piece = found
            body = Body(head)
        out += body.feed(piece)
    assert head is not None and body is not None
    return head, out, body


def test_a_cut_at_every_byte_changes_nothing() -> None:
    for cut in range(len(CHUNKED) + 1):
        head, out, body = read(CHUNKED[:cut], CHUNKED[cut:])
        assert (head.status, head.headers["x-request-id"], out, body.done) == (200, "req_1", b"hello, world!\r\n", True), cut


def test_single_bytes_change_nothing() -> None:
    _, out, body = read(*(CHUNKED[i : i + 1] for i in range(len(CHUNKED))))
    assert out == b"hello, world!\r\n" and body.done


def test_a_length_ends_the_body() -> None:
    _, out, body = read(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", b"cd")
    assert out == b"abc" and body.done


def test_a_body_without_length_ends_with_the_connection() -> None:
    _, out, body = read(b"HTTP/1.1 200 OK\r\n\r\nabc")
    assert out == b"abc" and not body.done and body.until_close
    body.end()
    assert body.done


def test_a_chunked_body_that_stops_early_is_not_done() -> None:
    _, _, body = read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel")
    body.end()
    assert not body.done


def test_empty_bodies_are_done_at_once() -> None:
    assert read(b"HTTP/1.1 204 No Content\r\n\r\n")[2].done
    assert read(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")[2].done


@pytest.mark.parametrize(
    ("version", "connection", "kept"),
    [("HTTP/1.1", "", True), ("HTTP/1.1", "close", False), ("HTTP/1.0", "", False), ("HTTP/1.0", "keep-alive", True)],
)
def test_keep_alive_follows_the_version_and_the_header(version: str, connection: str, kept: bool) -> None:
    assert Head(version, 200, {"connection": connection} if connection else {}).keep_alive is kept


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"x" * 70_000,
    ],
)
def test_what_is_not_http_is_refused(raw: bytes) -> None:
    with pytest.raises(HttpError):
        read(raw)
