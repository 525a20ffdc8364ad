"""A comparison in one sentence: what each run gained on the first, what it paid for that, and how sure both are. Pure.

Knows the figures of a comparison, no run. The first figure that changed beyond chance gives the word; a gain and a loss that
are both beyond it among what users feel (goodput, TTFT) are a trade. A run that repeats the first is judged in nothing: it
shows how far repeats differ.
Invariant: "better" and "worse" are said only where an interval says so of that very figure, which has its name in the tables,
and "sure" never without what it holds within, since requests are resampled as if independent.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any

from app.store.comparison_reading import enough

LETTERS = "ABCDE"
LABELS = {
    "client.ttft_due_ms": "TTFT from due", "client.ttft_ms": "TTFT", "client.tpot_ms": "TPOT", "client.itl_ms": "ITL",
    "client.e2e_ms": "E2E", "client.ntpot_ms": "E2E a token", "server.queue_ms": "queue",
}  # fmt: skip
GOODPUT, TPOT = "goodput.per_s", "percentiles.client.tpot_ms.p50"
_TTFT = ("percentiles.client.ttft_due_ms.p95", "percentiles.client.ttft_ms.p95")  # users of an open loop count from due
_QUEUE = "percentiles.server.queue_ms.p95"  # where no client saw a first token
_UNSURE = {"unclear": "may be chance", "too_few": "too few answers to be sure"}
_JUDGED = ("better", "worse")
_TELLING = 0.01  # smaller changes are left out, and give no word
_TIMES = 2.0  # from here on a growth is said as ×
Row = Mapping[str, Any]


def sentence(
    metrics: Sequence[Row],
    *,
    repeats: Collection[int] = (),
    host_limited: Collection[int] = (),
    within: str = "these two runs",
) -> str | None:
    """Of all runs beside the first; None where no figure is defined on both sides of any of them.

    repeats, host_limited: places of the runs that are the first one again, and of those whose host was late.
    """
    known = {row["name"]: row for row in metrics}
    several = len(metrics[0]["values"]) if metrics else 0
    said = list[str]()
    for index in range(1, several):
        late = " and ".join(LETTERS[each] for each in (0, index) if each in host_limited)
        limit = f"; the host limited {late}" if late else ""
        said.append(
            _repeated(index, metrics) + limit if index in repeats else _of(index, known, f"sure within {within}{limit}")
        )
    return ". ".join(each for each in said if each) or None


def _of(index: int, known: Mapping[str, Row], sure: str) -> str:
    names = _figures(index, known)
    if not names:
        return ""
    changed = [name for name in names if _telling(known[name], index)]
    gains = [name for name in changed if _gained(known[name], index)]
    costs = [name for name in changed if name not in gains]
    line = "; ".join(_changes([known[name] for name in each], index, sure) for each in (gains, costs) if each)
    return f"{_word(names, changed, index, known)}{': ' + line if line else ''}"


def _figures(index: int, known: Mapping[str, Row]) -> list[str]:
    """What the sentence looks at, TTFT as it was felt; only what both sides have."""
    return [name for name in (_leading(index, known), GOODPUT, TPOT) if _both(known.get(name), index)]


def _leading(index: int, known: Mapping[str, Row]) -> str:
    """The first TTFT with enough values on both sides; of none such, the first that both have."""
    there = [name for name in _TTFT if _both(known.get(name), index)]
    return next((name for name in there if _enough(known[name], index)), there[0] if there else _QUEUE)


def _both(row: Row | None, index: int) -> bool:
    return row is not None and row["difference"][index] is not None


def _enough(row: Row, index: int) -> bool:
    return enough(row["n"][0], row["n"][index])


def _telling(row: Row, index: int) -> bool:
    return bool(abs(row["difference"][index]) > _TELLING * abs(row["values"][0]))


def _word(names: Sequence[str], changed: Sequence[str], index: int, known: Mapping[str, Row]) -> str:
    letter, words = LETTERS[index], {name: known[name]["reading"][index] for name in names}
    judged = [name for name in changed if words[name] in _JUDGED]
    felt = {words[name]: _label(name) for name in names[:2] if name in judged}
    if len(felt) == 2:
        return f"{letter} trades {felt['worse']} (worse) for {felt['better']} (better)"
    if judged:
        return f"{letter} is {words[judged[0]]}"
    if not changed and any(word in _JUDGED for word in words.values()):
        return f"{letter} differs from A by less than {100 * _TELLING:.0f} %"
    if "too_few" in words.values() and "unclear" not in words.values():
        return f"too few answers to tell {letter} from A"
    return f"{letter} may be no other than A"


def _gained(row: Row, index: int) -> bool:
    return bool((row["difference"][index] > 0) is (row["better"] == "higher"))


def _changes(rows: Sequence[Row], index: int, sure: str) -> str:
    """Neighbours of which the same is known share their note."""
    said = list[str]()
    for note, group in groupby(rows, lambda row: _note(row["reading"][index], sure)):
        changes = [_change(row, index) for row in group]
        each = "each " if len(changes) > 1 else ""
        said.append(", ".join(changes) + (f" ({each}{note})" if note else ""))
    return ", ".join(said)


def _note(word: str | None, sure: str) -> str:
    return sure if word in _JUDGED else _UNSURE.get(word or "", "")


def _change(row: Row, index: int) -> str:
    relative, label = row["relative"][index], _label(row["name"])
    return f"{label} from 0 to {row['values'][index]:.3g}" if relative is None else f"{label} {_far(relative)}"


def _far(relative: float) -> str:
    if relative + 1 >= _TIMES:
        return f"×{relative + 1:.2g}" if relative < 99 else f"×{relative + 1:.0f}"
    return f"{'+' if relative > 0 else '−'}{100 * abs(relative):.0f} %"


def _label(name: str) -> str:
    """As the tables name it."""
    if name == GOODPUT:
        return "goodput"
    metric, _, q = name.removeprefix("percentiles.").rpartition(".")
    return f"{LABELS[metric]} {q}"


# ---- repeats


def _repeated(index: int, metrics: Sequence[Row]) -> str:
    """How far a repeat came out from the first, by the figure that did most; judged in nothing."""
    are = f"A and {LETTERS[index]} are repeats of one run"
    shown = [row for row in metrics if _named(row["name"]) and row["relative"][index] is not None]
    felt = [row for row in shown if not row["name"].startswith("percentiles.server.")] or shown
    worst = max(
        [row for row in felt if _enough(row, index)] or felt, key=lambda row: _factor(row["relative"][index]), default=None
    )
    if worst is None:
        return are
    if not _factor(worst["relative"][index]):
        return f"{are}, and do not differ in latency or goodput"
    few = "" if _enough(worst, index) else ", of few answers"
    return f"{are}: this is how far repeats differ, most in {_label(worst['name'])} ({_far(worst['relative'][index])}{few})"


def _named(name: str) -> bool:
    return name == GOODPUT or name.startswith("percentiles.")


def _factor(relative: float) -> float:
    """A tenth is as far off as tenfold."""
    return abs(math.log1p(relative)) if relative > -1 else math.inf
