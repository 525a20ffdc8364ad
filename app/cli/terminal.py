"""Text for a terminal: aligned tables, numbers, a progress line. Knows no command and no record.

Invariant: what is undefined prints as `—`, never as 0; a progress line is written over in terminals only;
a file gets a new one each EVERY_S.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TextIO

NONE = "—"
BAR = 24
EVERY_S = 10.0  # between lines to a file
_UNITS = ((1, "B"), (10**3, "kB"), (10**6, "MB"), (10**9, "GB"), (10**12, "TB"))


def table(rows: Iterable[Mapping[str, Any]], columns: Sequence[tuple[str, str]]) -> str:
    """Rows under headings, numbers to the right. `columns`: (key, heading)."""
    cells = [[cell(row.get(key)) for key, _ in columns] for row in rows]
    numeric = [all(_is_number(line[i]) for line in cells) and bool(cells) for i in range(len(columns))]
    widths = [max(len(heading), *(len(line[i]) for line in cells), 0) for i, (_, heading) in enumerate(columns)]
    lines = [[heading for _, heading in columns], *cells]
    return "\n".join(_line(line, widths, numeric) for line in lines)


def pairs(values: Mapping[str, Any]) -> str:
    """Names and values, one a line."""
    width = max((len(name) for name in values), default=0)
    return "\n".join(f"{name:<{width}}  {cell(value)}".rstrip() for name, value in values.items())


def cell(value: Any) -> str:
    """One value as text on one line."""
    if value is None or value == "":
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, ensure_ascii=False)
    return " ".join(str(value).split())


def number(value: float | None) -> str:
    """Four figures at most: 0.123, 12.3, 1234."""
    if value is None:
        return NONE
    if value != value or value in (float("inf"), float("-inf")):
        return NONE
    return f"{value:.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.{3 if abs(value) < 10 else 1}f}"


def size(count: float) -> str:
    """Bytes: 812 B, 3.4 MB, 1.2 GB."""
    unit = next((unit for unit in _UNITS if count < unit[0] * 1000), _UNITS[-1])
    value = count / unit[0]
    return f"{value:.0f} {unit[1]}" if unit[0] == 1 or value >= 100 else f"{value:.1f} {unit[1]}"


def print_json(value: Any) -> None:
    """One JSON document, indented, on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def say(text: str) -> None:
    """A remark for people, on standard error, so that standard output is the answer alone."""
    print(text, file=sys.stderr, flush=True)


class ProgressLine:
    """One line that is written over; where the stream is no terminal, a plain one each EVERY_S."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._width = 0
        self._written_at = clock()

    def show(self, done: float | None, text: str) -> None:
        """Write over the last line. done: 0 to 1, or None while unknown."""
        if not self._stream.isatty():
            if self._clock() - self._written_at >= EVERY_S:
                self._written_at = self._clock()
                print(text, file=self._stream, flush=True)
            return
        filled = round(BAR * min(max(done or 0.0, 0.0), 1.0))
        line = f"[{'#' * filled}{'.' * (BAR - filled)}] {text}"
        self._stream.write("\r" + line.ljust(self._width))
        self._stream.flush()
        self._width = len(line)

    def end(self) -> None:
        """Leave the line as it is and go to the next."""
        if self._width:
            self._stream.write("\n")
            self._stream.flush()
            self._width = 0


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    aligned = [
        text.rjust(width) if right else text.ljust(width) for text, width, right in zip(cells, widths, numeric, strict=True)
    ]
    return "  ".join(aligned).rstrip()


def _is_number(text: str) -> bool:
    bare = text.strip("()").removesuffix("%").strip().lstrip("+-")
    return text == NONE or bare.replace(".", "", 1).isdigit()
