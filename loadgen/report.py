"""A report from the client's records alone: exact percentiles, goodput, reconciliation. Pure; knows no server.

Percentiles come from the rows themselves, linearly interpolated (numpy's default), never from buckets. Latencies are
those of `ok` requests; a metric that a request does not define is left out, and `n` says of how many it was computed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from loadgen.results import GROUP, OK

QUANTILES = (0.5, 0.9, 0.95, 0.99)
FORMULAS = {
    "ttft_ms": "first token - sent",
    "ttft_due_ms": "first token - due (open loop)",
    "e2e_ms": "last token - sent",
    "tpot_ms": "(last - first token) / (output tokens - tokens in the first event)",
    "icl_ms": "gaps between token events",
    "itl_ms": "gaps between tokens, of answers with one token an event",
    "lateness_ms": "sent - due (open loop): the generator's own delay",
}
Row = Mapping[str, Any]


def percentile(ordered: Sequence[float], q: float) -> float | None:
    """The q-quantile of an ordered sequence by linear interpolation; None if it is empty."""
    if not ordered:
        return None
    at = (len(ordered) - 1) * q
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def summary(values: Iterable[float | None]) -> dict[str, Any]:
    """n, mean, extremes and quantiles of the defined values; `thin` names quantiles that n is too small for."""
    ordered = sorted(value for value in values if value is not None)
    figures: dict[str, Any] = {"n": len(ordered), "mean": sum(ordered) / len(ordered) if ordered else None}
    figures |= {"min": ordered[0] if ordered else None, "max": ordered[-1] if ordered else None}
    figures |= {f"p{round(q * 100)}": percentile(ordered, q) for q in QUANTILES}
    figures["thin"] = [f"p{round(q * 100)}" for q in QUANTILES if len(ordered) * (1 - q) < 1 - 1e-9]
    return figures


def ttft(row: Row) -> float | None:
    return _minus(row["first_ms"], row["sent_ms"])


def ttft_due(row: Row) -> float | None:
    return _minus(row["first_ms"], row["due_ms"])


def tpot(row: Row) -> float | None:
    """None unless more tokens came than the first event held."""
    if row["first_ms"] is None or row["output_tokens"] is None:
        return None
    rest = row["output_tokens"] - (row.get("first_tokens") or 1)
    return (row["last_ms"] - row["first_ms"]) / rest if rest > 0 else None


def report(rows: Sequence[Row], slo: Mapping[str, float | None], window_s: float | None = None) -> dict[str, Any]:
    """All figures of a run that its client knows. `slo`: ttft_ms and tpot_ms, None: no bound."""
    good = [row for row in rows if row["status"] == OK]
    return {
        "reconciliation": reconcile(rows),
        "statuses": dict(sorted(Counter(row["status"] for row in rows).items())),
        "errors": _errors(rows),
        "percentiles": latencies(good),
        "formulas": FORMULAS,
        "goodput": goodput(rows, slo, window_s),
        "by_kind": {kind: latencies(group) for kind, group in _groups(good, "kind").items()},
        "by_tenant": {tenant: latencies(group) for tenant, group in _groups(good, "tenant").items()},
        "error_e2e_ms": summary(row["end_ms"] - row["sent_ms"] for row in rows if GROUP[row["status"]] == "failed"),
        "estimated": sum(bool(row["estimated"]) for row in good),
    }


def reconcile(rows: Sequence[Row]) -> dict[str, int]:
    """sent = ok + failed + refused + cancelled + incomplete, by construction of the groups."""
    counts = Counter(GROUP[row["status"]] for row in rows)
    return {"sent": len(rows), **{name: counts[name] for name in ("ok", "failed", "refused", "cancelled", "incomplete")}}


def latencies(good: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """The table of percentiles over `ok` rows."""
    return {
        "ttft_ms": summary(map(ttft, good)),
        "ttft_due_ms": summary(map(ttft_due, good)),
        "e2e_ms": summary(_minus(row["last_ms"], row["sent_ms"]) for row in good),
        "tpot_ms": summary(map(tpot, good)),
        "icl_ms": summary(gap for row in good for gap in row["gaps_ms"]),
        "itl_ms": summary(gap for row in good if _one_token_an_event(row) for gap in row["gaps_ms"]),
        "lateness_ms": summary(_minus(row["sent_ms"], row["due_ms"]) for row in good),
    }


def goodput(rows: Sequence[Row], slo: Mapping[str, float | None], window_s: float | None = None) -> dict[str, Any]:
    """Requests that ended ok within every bound, a second and as a share of all that were due, failed ones included.

    TTFT counts from due where there is a due. An undefined TPOT (one token) passes, an undefined TTFT fails.
    """
    span = window_s or max((row["end_ms"] for row in rows), default=0.0) / 1e3
    met = sum(meets(row, slo) for row in rows)
    return {
        "slo": dict(slo),
        "due": len(rows),
        "met": met,
        "attainment": met / len(rows) if rows else None,
        "per_s": met / span if span else None,
        "window_s": span,
    }


def meets(row: Row, slo: Mapping[str, float | None]) -> bool:
    if row["status"] != OK:
        return False
    first = ttft(row) if row["due_ms"] is None else ttft_due(row)
    pace = tpot(row)
    ttft_bound, tpot_bound = slo.get("ttft_ms"), slo.get("tpot_ms")
    in_time = ttft_bound is None or (first is not None and first <= ttft_bound)
    return in_time and (tpot_bound is None or pace is None or pace <= tpot_bound)


def _one_token_an_event(row: Row) -> bool:
    return not row["estimated"] and row["output_tokens"] == len(row["gaps_ms"]) + 1


def _errors(rows: Sequence[Row], most: int = 20) -> list[dict[str, Any]]:
    counts = Counter((row["status"], row["http"], row["error"]) for row in rows if row["status"] != OK and row["error"])
    return [{"status": s, "http": h, "error": e, "count": n} for (s, h, e), n in counts.most_common(most)]


def _groups(rows: Sequence[Row], field: str) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[field], []).append(row)
    return dict(sorted(groups.items()))


def _minus(late: float | None, early: float | None) -> float | None:
    return None if late is None or early is None else late - early
