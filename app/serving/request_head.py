"""The head of a request, read strictly: request line, header lines, and what they say of the body. Knows no socket.

Servers that read leniently disagree with the proxy before them about where a request ends, and a second one slips through.
Invariant: what passes here has one reading: CRLF line ends, one Host, at most one length, no control byte.
"""

from __future__ import annotations

import re
from typing import Any, Protocol

MAX_LINE = 8190
MAX_HEAD_BYTES = 32 << 10
MAX_HEADERS = 100
MAX_LENGTH_DIGITS = 15
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]"
_REQUEST_LINE = re.compile(rf"{_TOKEN}{{1,32}} (?:/[\x21-\x7e]*|\*) HTTP/1\.[01]\r\n")
_HEADER_LINE = re.compile(rf"{_TOKEN}+:[\x09\x20-\x7e\x80-\xff]*\r\n".encode("latin-1"))
_ONE_OF_EACH = ("host", "content-length", "transfer-encoding", "content-type", "authorization", "origin")


class Lines(Protocol):
    """Bytes that can be read by line."""

    def readline(self, size: int = -1, /) -> bytes: ...


class BadFraming(ValueError):
    """The request cannot be read without guessing."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def check_request_line(line: str) -> None:
    """Raises BadFraming unless it is METHOD /path HTTP/1.x."""
    if len(line) > MAX_LINE:
        raise BadFraming(414, f"the request line is longer than {MAX_LINE} bytes")
    if not _REQUEST_LINE.fullmatch(line):
        raise BadFraming(400, "the request line is not METHOD /path HTTP/1.1")


def read_header_block(lines: Lines) -> bytes:
    """The header lines and the blank one after them; raises BadFraming."""
    block: list[bytes] = []
    left = MAX_HEAD_BYTES
    while (line := lines.readline(left + 2)) != b"\r\n":
        left -= len(line)
        if left < 0 or len(block) >= MAX_HEADERS:
            raise BadFraming(431, f"more than {MAX_HEADERS} headers or {MAX_HEAD_BYTES} bytes of them")
        if not _HEADER_LINE.fullmatch(line):
            raise BadFraming(400, "a header line is malformed, folded, or holds control bytes")
        block.append(line)
    return b"".join(block) + line


def check_headers(headers: Any, version: str) -> None:
    """Refuse what two readers could read differently; raises BadFraming."""
    counts = {name: len(headers.get_all(name, ())) for name in _ONE_OF_EACH}
    if counts["host"] != 1 or max(counts.values()) > 1:
        raise BadFraming(400, f"exactly one Host and at most one of {', '.join(_ONE_OF_EACH[1:])} are needed")
    length, coding = headers.get("content-length"), headers.get("transfer-encoding")
    if coding is not None and coding.strip().lower() != "chunked":
        raise BadFraming(400, "only the chunked transfer coding is understood")
    if coding is not None and (length is not None or version != "HTTP/1.1"):
        raise BadFraming(400, "Transfer-Encoding excludes Content-Length and needs HTTP/1.1")
    if length is not None and not (length.isascii() and length.isdigit() and len(length) <= MAX_LENGTH_DIGITS):
        raise BadFraming(400, "Content-Length is not a number")
    expect = headers.get("expect")
    if expect is not None and expect.strip().lower() != "100-continue":
        raise BadFraming(417, "the only expectation that is met is 100-continue")
