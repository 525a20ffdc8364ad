"""Errors in words: what the system says with numbers and names of its own is said as a person would."""

from __future__ import annotations

import errno
import os

import pytest

from scheduler.errors import in_words


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "a.toml"), "no such file or directory"),
        (ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED)), "connection refused"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "it is not text in UTF-8"),
        (ValueError("line 3 has no key"), "line 3 has no key"),
        (TimeoutError("timed out"), "timed out"),
        (ConnectionResetError(), "ConnectionResetError"),
    ],
)
def test_an_error_says_what_went_wrong(error: Exception, said: str) -> None:
    assert in_words(error) == said
