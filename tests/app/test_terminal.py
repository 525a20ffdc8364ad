"""Text for a terminal: tables align, numbers are short, progress to a file is rare."""

from __future__ import annotations

import io

import pytest

from app.cli.terminal import ProgressLine, number, table


def test_tables_align_and_print_a_dash_for_null() -> None:
    text = table([{"a": "x", "n": 1.5}, {"a": "long", "n": None}], [("a", "name"), ("n", "ms")])
    assert text.splitlines() == ["name     ms", "x     1.500", "long      —"]


@pytest.mark.parametrize(
    ("value", "text"), [(None, "—"), (0.0, "0"), (0.1234, "0.123"), (12.34, "12.3"), (1234.5, "1234"), (float("nan"), "—")]
)
def test_numbers_have_four_figures_at_most(value: float | None, text: str) -> None:
    assert number(value) == text


def test_progress_to_a_file_is_a_plain_line_each_ten_seconds() -> None:
    stream, now = io.StringIO(), 0.0
    line = ProgressLine(stream, lambda: now)
    for now in (0.5 * n for n in range(50)):
        line.show(now / 25, f"at {now:g}")
    line.end()
    assert stream.getvalue() == "at 10\nat 20\n"
