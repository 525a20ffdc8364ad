"""The figures of a report: rows of a run in, JSON-ready values out. Knows no SQL and no verdict.

Percentiles are exact, from rows; latencies are over requests that ended well; an open loop counts from when a request
was due. Undefined is None. A figure over all requests (goodput, attainment) has failed and refused ones in its
denominator.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.store.models import WAIT_COLUMNS
from app.store.packing import unpack_gaps
from app.store.report_rows import Row, StepRow
from scheduler.metrics import WAIT_REASONS, fluidity, meets, ordered_percentiles

WELL = ("stop", "length")
_CLIENT = ("ttft_ms", "ttft_due_ms", "tpot_ms", "e2e_ms")
_SERVER = ("ttft_ms", "tpot_ms", "queue_ms", "e2e_ms")
FLUID = 0.9  # Etalon calls a request fluid from this index on
Samples = Mapping[str, Mapping[str, Sequence[float]]]


@dataclass(frozen=True, slots=True)
class Slo:
    """The objectives of a request: both must be met."""

    ttft_ms: float = 1000.0
    tpot_ms: float = 100.0


def samples(server: Sequence[Row], client: Sequence[Row], gaps: Iterable[float]) -> Samples:
    """{side: {metric: its defined values, ascending}}: what percentiles and their resamples are taken from."""
    ok = [row for row in client if row["status"] == "ok"]
    well = [row for row in server if row["finish"] in WELL]
    seen = {name: _ascending(row[name] for row in ok) for name in _CLIENT}
    seen["itl_ms"] = _ascending(gaps)
    seen["ntpot_ms"] = _ascending(map(normalised, ok))
    seen["lateness_ms"] = _ascending(row["lateness_ms"] for row in client)
    had = {name: _ascending(row[name] for row in well) for name in _SERVER} | {"ntpot_ms": _ascending(map(normalised, well))}
    return {"client": seen, "server": had}


def latencies(found: Samples) -> dict[str, Any]:
    """Client and server percentiles, side by side."""
    return {side: {name: ordered_percentiles(values) for name, values in metrics.items()} for side, metrics in found.items()}


def normalised(row: Row) -> float | None:
    """E2E / output tokens (NTPOT)."""
    whole, tokens = row["e2e_ms"], row["output_tokens"]
    return whole / tokens if whole is not None and tokens else None


def duration_s(server: Sequence[Row], client: Sequence[Row]) -> float | None:
    """From the first request sent (or due) to the last end, as the client saw it; else as the server did."""
    starts = [min(t for t in (row["due_ms"], row["sent_ms"]) if t is not None) for row in client if row["sent_ms"] is not None]
    ends = [row["end_ms"] for row in client if row["end_ms"] is not None]
    if starts and ends:
        return float(max(ends) - min(starts)) / 1e3
    closed = [row for row in server if row["finished_at"] is not None]
    if not closed:
        return None
    return float(max(row["finished_at"] for row in closed) - min(row["received_at"] for row in server)) / 1e9


def goodput(client: Sequence[Row], seconds: float | None, slo: Slo) -> dict[str, Any]:
    """Requests that ended well within the SLO: a second, as a share of all that were sent, and of those not refused.

    fluid: the share of answers whose fluidity index (deadlines: the SLO pair) is at least FLUID.
    """
    due = any(row["due_ms"] is not None for row in client)
    good = fluid = 0
    ok = [row for row in client if row["status"] == "ok"]
    for row in ok:
        ttft = row["ttft_due_ms"] if row["due_ms"] is not None else row["ttft_ms"]
        good += meets(ttft, row["tpot_ms"], slo.ttft_ms, slo.tpot_ms)
        fluid += ttft is not None and _fluid(row, ttft, slo)
    admitted = sum(row["status"] != "shed" for row in client)
    return {
        "slo": {"ttft_ms": slo.ttft_ms, "tpot_ms": slo.tpot_ms, "ttft_from": "due" if due else "sent"},
        "good": good,
        "per_s": good / seconds if seconds else None,
        "attainment": good / len(client) if client else None,
        "n": len(client),
        "attainment_admitted": good / admitted if admitted else None,
        "n_admitted": admitted,
        "fluid": fluid / len(ok) if ok else None,
    }


def _fluid(row: Row, ttft: float, slo: Slo) -> bool:
    """Tokens are looked at one by one only where one can have been late."""
    if ttft <= slo.ttft_ms and row["longest_gap_ms"] <= slo.tpot_ms:
        return True
    return fluidity(ttft, unpack_gaps(row["gaps"]), slo.ttft_ms, slo.tpot_ms) >= FLUID


def waits(server: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """{reason: {ms, share, requests}} of the time before the first admission; only what occurred."""
    found: dict[str, dict[str, Any]] = {}
    totals = {reason: [row[column] or 0 for row in server] for reason, column in zip(WAIT_REASONS, WAIT_COLUMNS, strict=True)}
    whole = sum(sum(values) for values in totals.values())
    for reason, values in totals.items():
        ns = sum(values)
        if ns:
            found[reason] = {"ms": ns / 1e6, "share": ns / whole, "requests": sum(value > 0 for value in values)}
    return found


def slowest(server: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """Which answer that ended well took longest, by metric: {id, ms}; a metric that none of them has is left out."""
    found = {}
    for metric in ("ttft_ms", "e2e_ms"):
        rows = [row for row in server if row["finish"] in WELL and row[metric] is not None]
        if rows:
            worst = max(rows, key=lambda row: row[metric])
            found[metric] = {"id": worst["id"], "ms": worst[metric]}
    return found


def throughput(server: Sequence[Row], client: Sequence[Row], seconds: float | None) -> dict[str, Any]:
    """Per second over the whole run: answers that ended well, their tokens, prompt tokens taken in.

    offered_s: requests of the open loop a second, as they were due; None of users who wait for their answers.
    cached_tokens: prompt tokens that the prefix cache gave. A load run's prompts begin with a nonce, so that what an
    earlier run left in the cache is not measured; what is found was shared within the run.
    """
    ok = [row for row in client if row["status"] == "ok"]
    output = _sum(row["output_tokens"] for row in (client or server))
    prompt = _sum(row["prompt_tokens"] for row in (server or client))
    done = len(ok) if client else sum(row["finish"] in WELL for row in server)
    return {
        "duration_s": seconds,
        "offered_s": _offered(client),
        "requests_s": done / seconds if seconds else None,
        "output_tok_s": output / seconds if seconds else None,
        "prompt_tok_s": prompt / seconds if seconds else None,
        "output_tokens": output,
        "prompt_tokens": prompt,
        "cached_tokens": _sum(row["cached_tokens"] for row in server) if server else None,
    }


def _offered(client: Sequence[Row]) -> float | None:
    due = [row["due_ms"] for row in client if row["due_ms"] is not None]
    span = max(due) - min(due) if due else 0.0
    return 1e3 * (len(due) - 1) / span if span else None


def timeline(server: Sequence[Row], client: Sequence[Row], steps: Sequence[StepRow], start_wall: int) -> dict[str, list[Any]]:
    """Columns a second of the run: t, sent, done, failed, and the mean of waiting and running over the steps in it."""
    zero = origin(server, client, start_wall)
    sent = Counter(int(row["sent_ms"] // 1000) for row in client if row["sent_ms"] is not None)
    done = Counter(int(row["end_ms"] // 1000) for row in client if row["end_ms"] is not None and row["status"] == "ok")
    failed = Counter(int(row["end_ms"] // 1000) for row in client if row["end_ms"] is not None and row["status"] != "ok")
    depth: dict[int, list[StepRow]] = {}
    for step in steps:
        depth.setdefault((step.ended_wall - zero) // 10**9, []).append(step)
    seconds = [second for second in (*sent, *done, *failed, *depth) if 0 <= second < 86_400]
    span = range(max(seconds, default=-1) + 1)
    return {
        "t": list(span),
        "sent": [sent[second] for second in span],
        "done": [done[second] for second in span],
        "failed": [failed[second] for second in span],
        "waiting": [_mean(step.waiting for step in depth.get(second, ())) for second in span],
        "running": [_mean(step.running for step in depth.get(second, ())) for second in span],
    }


def origin(server: Sequence[Row], client: Sequence[Row], start_wall: int) -> int:
    """The client's zero on the wall clock: no request can have been received before it was sent."""
    sent = {row["client_request_id"]: row["sent_ms"] for row in client if row["sent_ms"] is not None}
    offsets = [
        row["received_wall"] - round(sent[row["client_request_id"]] * 1e6) for row in server if row["client_request_id"] in sent
    ]
    return min(offsets, default=start_wall)


def _ascending(values: Iterable[float | None]) -> array[float]:
    """The defined ones in order, as bare numbers: there may be a hundred million gaps between tokens."""
    known = values if isinstance(values, array) else array("d", (value for value in values if value is not None))
    return array("d", np.sort(np.frombuffer(known, float)).tobytes())


def _sum(values: Iterable[int | None]) -> int:
    return sum(value for value in values if value is not None)


def _mean(values: Iterable[int]) -> float | None:
    known = list(values)
    return sum(known) / len(known) if known else None
