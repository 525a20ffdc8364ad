"""A comparison in one sentence: what each run gained on the first, what it paid for that, and how sure both are. Pure.

Knows the figures of a comparison, no run. The first of LEADING of which chance can be told gives the word; a gain and a loss
that are both sure among the figures that users feel (goodput, TTFT) are a trade.
Invariant: "better" and "worse" are said only where an interval says so of that very figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LETTERS = "ABCDE"
GOODPUT, TPOT = ("goodput.per_s", "goodput"), ("percentiles.client.tpot_ms.p50", "TPOT p50")
_TTFT = (
    ("percentiles.client.ttft_due_ms.p95", "TTFT p95"),  # an open loop's users count from when they were due
    ("percentiles.client.ttft_ms.p95", "TTFT p95"),
    ("percentiles.server.queue_ms.p95", "queue p95"),
)
_SURE = {"better": " (sure)", "worse": " (sure)", "unclear": " (may be chance)", "too_few": " (too few answers to be sure)"}
_TELLING = 0.01  # smaller changes are left out
_TIMES = 2.0  # from here on a growth is said as ×
Row = Mapping[str, Any]


def sentence(metrics: Sequence[Row]) -> str | None:
    """Of all runs beside the first; None where no figure is defined on both sides of any of them."""
    known = {row["name"]: row for row in metrics}
    several = len(metrics[0]["values"]) if metrics else 0
    said = [_of(index, known) for index in range(1, several)]
    return ". ".join(each for each in said if each) or None


def _of(index: int, known: Mapping[str, Row]) -> str:
    shown = [(known[name], label) for name, label in _figures(index, known)]
    if not shown:
        return ""
    words = [row["reading"][index] for row, _ in shown]
    changed = [(row, label) for row, label in shown if abs(row["difference"][index]) > _TELLING * abs(row["values"][0])]
    gains = [_change(row, label, index) for row, label in changed if _gained(row, index)]
    costs = [_change(row, label, index) for row, label in changed if not _gained(row, index)]
    line = "; ".join(", ".join(each) for each in (gains, costs) if each)
    return f"{_word(words, LETTERS[index])}{': ' + line if line else ''}"


def _figures(index: int, known: Mapping[str, Row]) -> list[tuple[str, str]]:
    """What the sentence looks at, TTFT as it was felt; only what both sides have."""
    leading = next((each for each in _TTFT if _both(known.get(each[0]), index)), None)
    return [each for each in (leading, GOODPUT, TPOT) if each and _both(known.get(each[0]), index)]


def _both(row: Row | None, index: int) -> bool:
    return row is not None and row["difference"][index] is not None


def _word(words: Sequence[str | None], letter: str) -> str:
    felt = {word for word in words[:2] if word in ("better", "worse")}
    if len(felt) == 2:
        return f"{letter} trades one for the other"
    sure = next((word for word in words if word in ("better", "worse")), None)
    if sure:
        return f"{letter} is {sure}"
    if "too_few" in words and "unclear" not in words:
        return f"too few answers to tell {letter} from A"
    return f"{letter} may be no other than A"


def _gained(row: Row, index: int) -> bool:
    return bool((row["difference"][index] > 0) is (row["better"] == "higher"))


def _change(row: Row, label: str, index: int) -> str:
    relative, sure = row["relative"][index], _SURE.get(row["reading"][index] or "", "")
    if relative is None:
        return f"{label} from 0 to {row['values'][index]:.3g}{sure}"
    if relative + 1 >= _TIMES:
        return f"{label} ×{relative + 1:.2g}{sure}" if relative < 99 else f"{label} ×{relative + 1:.0f}{sure}"
    return f"{label} {'+' if relative > 0 else '−'}{100 * abs(relative):.0f} %{sure}"
