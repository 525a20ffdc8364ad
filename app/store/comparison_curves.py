"""The lines of a comparison: how a latency is distributed, and how a run went from its own t = 0. Rows in, points out; no SQL.

A point of a distribution is one of the empirical CDF itself: of more than MOST_POINTS values every k-th, never an average.
Invariant: at most MOST_POINTS points a distribution and MOST_BINS a series, however long the run was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.store.report_rows import StepRow

MOST_POINTS = 400
MOST_BINS = 120
METRICS = ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")
_TELLING = 0.25  # of a bin's width
_WIDTHS_S = (0.25, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)


def cdfs(samples: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, Any]:
    """{metric: {of, n, ms, share}}: as the client saw it, where no client told anything as the server did (`of` says which)."""
    return {metric: cdf(*_seen(samples, metric)) for metric in METRICS}


def cdf(of: str, ordered: Sequence[float]) -> dict[str, Any]:
    """Of ascending values: up to so many of them, each with the share of all that are no larger."""
    n = len(ordered)
    points = min(n, MOST_POINTS)
    ranks = [-(-n * k // points) for k in range(1, points + 1)]
    return {"of": of, "n": n, "ms": [ordered[rank - 1] for rank in ranks], "share": [rank / n for rank in ranks]}


def _seen(samples: Mapping[str, Mapping[str, Sequence[float]]], metric: str) -> tuple[str, Sequence[float]]:
    client = samples["client"][metric]
    return ("client", client) if client else ("server", samples["server"].get(metric, ()))


def series(steps: Sequence[StepRow], origin: int) -> dict[str, Any]:
    """Columns by bin: t_s (its begin), waiting and running (mean over its steps; None where none ended), decode_tok_s.

    origin: epoch ns of t = 0. A token is counted when its step ends; a request's first one comes with its prefill and is not.
    A rate is over the part of its bin in which there were steps to end; None where that is too short to tell.
    """
    ended = [(at, step) for step in steps if (at := (step.ended_wall - origin) / 1e9) >= 0]
    end = max((at for at, _ in ended), default=0.0)
    begin = min((at - (step.ended_at - step.started_at) / 1e9 for at, step in ended), default=0.0)
    width = next((each for each in _WIDTHS_S if end < each * MOST_BINS), end / (MOST_BINS - 1))
    bins: dict[int, list[StepRow]] = {}
    for at, step in ended:
        bins.setdefault(int(at / width), []).append(step)
    places = range(min(bins), max(bins) + 1) if bins else range(0)
    within = [bins.get(place, []) for place in places]
    spans = [min(end, (place + 1) * width) - max(begin, place * width) for place in places]
    return {
        "bin_s": width,
        "t_s": [round(place * width, 3) for place in places],
        "waiting": [_mean([step.waiting for step in each]) for each in within],
        "running": [_mean([step.running for step in each]) for each in within],
        "decode_tok_s": [_rate(each, span, width) for each, span in zip(within, spans, strict=True)],
    }


def _rate(steps: Sequence[StepRow], span_s: float, width_s: float) -> float | None:
    return sum(step.decode_tokens for step in steps) / span_s if span_s > width_s * _TELLING else None


def _mean(values: Sequence[int]) -> float | None:
    return sum(values) / len(values) if values else None
