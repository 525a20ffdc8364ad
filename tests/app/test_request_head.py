"""The head of a request: what passes the strict reader has one reading for the library that parses it after us."""

from __future__ import annotations

import http.client
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.serving.request_head import MAX_HEAD_BYTES, MAX_HEADERS, BadFraming, check_request_line, read_header_block

TOKEN = st.text("!#$%&'*+.^_`|~0123456789ABCXYZabcxyz-", min_size=1, max_size=12).map(lambda text: text.encode())
VALUE = st.binary(max_size=24).map(lambda data: bytes(byte for byte in data if byte >= 32 and byte != 127 or byte == 9))


@given(st.lists(st.tuples(TOKEN, VALUE), max_size=20))
def test_what_passes_is_parsed_as_the_very_lines_that_were_checked(pairs: list[tuple[bytes, bytes]]) -> None:
    sent = b"".join(name + b":" + value + b"\r\n" for name, value in pairs) + b"\r\n"
    block = read_header_block(io.BytesIO(sent + b"the next request"))
    assert block == sent
    parsed = http.client.parse_headers(io.BytesIO(block))
    found = [(name.encode("latin-1"), value.strip(" \t").encode("latin-1")) for name, value in parsed.items()]
    assert found == [(name, value.strip(b" \t")) for name, value in pairs]


@given(st.binary(max_size=200))
def test_any_bytes_are_lines_or_a_refusal(data: bytes) -> None:
    try:
        block = read_header_block(io.BytesIO(data))
    except BadFraming as refused:
        assert refused.status in (400, 431)
    else:
        assert data.startswith(block) and block.endswith(b"\r\n") and b"\0" not in block
        assert block.count(b"\n") == block.count(b"\r") == block.count(b"\r\n")


def test_the_bounds_of_a_head_are_exact() -> None:
    lines = b"A: b\r\n" * MAX_HEADERS
    assert read_header_block(io.BytesIO(lines + b"\r\n")) == lines + b"\r\n"
    longest = b"A: " + b"x" * (MAX_HEAD_BYTES - 5) + b"\r\n"
    assert read_header_block(io.BytesIO(longest + b"\r\n")) == longest + b"\r\n"
    for over in (b"A: b\r\n" + lines, b"A: x" + longest[3:]):
        with pytest.raises(BadFraming) as caught:
            read_header_block(io.BytesIO(over + b"\r\n"))
        assert caught.value.status == 431


@given(st.text(st.characters(max_codepoint=255), max_size=30))
def test_a_request_line_that_passes_has_three_words(text: str) -> None:
    for line in (text, f"GET /{text} HTTP/1.1\r\n", f"{text} / HTTP/1.1\r\n"):
        try:
            check_request_line(line)
        except BadFraming:
            continue
        words: list[Any] = line.split()
        assert len(words) == 3 and line == " ".join(words) + "\r\n" and words[1][0] in "/*"
