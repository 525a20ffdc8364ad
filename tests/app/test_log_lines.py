"""Log lines: one record is one line, and nothing in it is obeyed by a terminal."""

from __future__ import annotations

import io
import logging

import pytest

from app.log_lines import PlainFormatter, escaped


def logged(message: str, *args: object, error: Exception | None = None) -> str:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(PlainFormatter())
    record = logging.LogRecord(
        "batchscope", logging.ERROR, "x.py", 1, message, args, (type(error), error, None) if error else None
    )
    handler.handle(record)
    return out.getvalue()


@pytest.mark.parametrize(
    "forged", ["a\n2026-01-01 00:00:00,000 ERROR batchscope b", "a\r\nb", "a\x1b[2Jb", "a\u009b1mb", "a\u2028b\u202eb"]
)
def test_what_a_client_says_stays_on_its_line_and_is_not_obeyed(forged: str) -> None:
    text = logged("it said %s", forged)
    assert text.count("\n") == 1 and text.rstrip("\n").isprintable() and " ERROR batchscope it said a" in text


def test_a_traceback_is_indented_so_that_no_line_of_it_is_a_record() -> None:
    text = logged("a view failed", error=ValueError("x\n2026-01-01 00:00:00,000 ERROR batchscope forged"))
    first, *rest = text.rstrip("\n").split("\n")
    assert first.endswith("a view failed") and rest and all(line.startswith("    ") for line in rest)


def test_printable_text_is_left_as_it_is() -> None:
    assert escaped("naïve 日本 😀 \\n") == "naïve 日本 😀 \\n"
    assert escaped("a\tb\0c") == "a\\tb\\x00c"
