"""The figures of a report: rows of a run in, JSON-ready values out. Knows no SQL and no verdict.

Percentiles are exact, from rows; latencies are over requests that ended well; an open loop counts from when a request
was due. Undefined is None. A figure over all requests (goodput, attainment) has failed and refused ones in its
denominator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.store.detail import client_figures
from app.store.models import WAIT_COLUMNS
from app.store.packing import unpack_gaps
from scheduler.metrics import WAIT_REASONS, jain, meets, percentile, percentiles, service

Row = Mapping[str, Any]
_WELL = ("stop", "length")
_CLIENT = ("ttft_ms", "ttft_due_ms", "tpot_ms", "e2e_ms")
_SERVER = ("ttft_ms", "tpot_ms", "queue_ms", "e2e_ms")


@dataclass(frozen=True, slots=True)
class Slo:
    """The objectives of a request: both must be met."""

    ttft_ms: float = 1000.0
    tpot_ms: float = 100.0


def latencies(server: Sequence[Row], client: Sequence[Row]) -> dict[str, Any]:
    """Client and server percentiles, side by side."""
    ok = [client_figures(row) for row in client if row["status"] == "ok"]
    seen: dict[str, Any] = {name: percentiles(figures[name] for figures in ok) for name in _CLIENT}
    gaps = (gap for row in client if row["status"] == "ok" for gap in unpack_gaps(row["gaps"]))
    seen["itl_ms"] = percentiles(gaps)
    seen["lateness_ms"] = percentiles(client_figures(row)["lateness_ms"] for row in client)
    well = [row for row in server if row["finish"] in _WELL]
    return {"client": seen, "server": {name: percentiles(row[name] for row in well) for name in _SERVER}}


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
    """Requests that ended well within the SLO: a second, and as a share of all that were sent."""
    good = 0
    due = any(row["due_ms"] is not None for row in client)
    for row in client:
        figures = client_figures(row)
        ttft = figures["ttft_due_ms"] if row["due_ms"] is not None else figures["ttft_ms"]
        good += row["status"] == "ok" and meets(ttft, figures["tpot_ms"], slo.ttft_ms, slo.tpot_ms)
    return {
        "slo": {"ttft_ms": slo.ttft_ms, "tpot_ms": slo.tpot_ms, "ttft_from": "due" if due else "sent"},
        "good": good,
        "per_s": good / seconds if seconds else None,
        "attainment": good / len(client) if client else None,
        "n": len(client),
    }


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


def fairness(server: Sequence[Row]) -> dict[str, Any]:
    """Service (prompt + 2 × output tokens) a tenant, and Jain's index over it."""
    served = service((row["tenant"], row["prompt_tokens"] or 0, row["output_tokens"] or 0) for row in server)
    counts = Counter(row["tenant"] for row in server)
    whole = sum(served.values())
    queues: dict[str, list[float]] = {}
    for row in server:
        if row["queue_ms"] is not None:
            queues.setdefault(row["tenant"], []).append(row["queue_ms"])
    tenants = {
        tenant: {
            "service": units,
            "share": units / whole if whole else None,
            "requests": counts[tenant],
            "queue_ms": percentiles(queues.get(tenant, ())),
        }
        for tenant, units in sorted(served.items())
    }
    return {"tenants": tenants, "jain": jain(served.values())}


def steps_figures(steps: Sequence[Row]) -> dict[str, Any]:
    """Steps of the run's window: how full, how long, what bound them."""
    ms = sorted((row["ended_at"] - row["started_at"]) / 1e6 for row in steps)
    tokens = sum(row["prefill_tokens"] + row["decode_tokens"] for row in steps)
    budget = sum(row["token_budget"] for row in steps)
    binding = Counter(row["binding"] for row in steps)
    return {
        "n": len(steps),
        "ms": {"p50": percentile(ms, 50), "p95": percentile(ms, 95), "max": ms[-1] if ms else None},
        "budget_used": tokens / budget if budget else None,
        "prefill_tokens": sum(row["prefill_tokens"] for row in steps),
        "decode_tokens": sum(row["decode_tokens"] for row in steps),
        "preemptions": sum(row["preempted"] for row in steps),
        "binding": {reason: n / len(steps) for reason, n in binding.most_common()},
        "running_max": max((row["running"] for row in steps), default=None),
        "waiting_max": max((row["waiting"] for row in steps), default=None),
        "host_late": sum(row["host_late_ns"] > 0 for row in steps),
    }


def throughput(server: Sequence[Row], client: Sequence[Row], seconds: float | None) -> dict[str, Any]:
    """Per second over the whole run: answers that ended well, their tokens, prompt tokens taken in.

    cached_tokens: prompt tokens that the prefix cache gave. A load run's prompts begin with a nonce, so that what an
    earlier run left in the cache is not measured; what is found was shared within the run.
    """
    ok = [row for row in client if row["status"] == "ok"]
    output = _sum(row["output_tokens"] for row in (client or server))
    prompt = _sum(row["prompt_tokens"] for row in (server or client))
    done = len(ok) if client else sum(row["finish"] in _WELL for row in server)
    return {
        "duration_s": seconds,
        "requests_s": done / seconds if seconds else None,
        "output_tok_s": output / seconds if seconds else None,
        "prompt_tok_s": prompt / seconds if seconds else None,
        "output_tokens": output,
        "prompt_tokens": prompt,
        "cached_tokens": _sum(row["cached_tokens"] for row in server) if server else None,
    }


def timeline(server: Sequence[Row], client: Sequence[Row], steps: Sequence[Row], start_wall: int) -> dict[str, list[Any]]:
    """Columns a second of the run: t, sent, done, failed, and the mean of waiting and running over the steps in it."""
    origin = _origin(server, client, start_wall)
    sent = Counter(int(row["sent_ms"] // 1000) for row in client if row["sent_ms"] is not None)
    done = Counter(int(row["end_ms"] // 1000) for row in client if row["end_ms"] is not None and row["status"] == "ok")
    failed = Counter(int(row["end_ms"] // 1000) for row in client if row["end_ms"] is not None and row["status"] != "ok")
    depth: dict[int, list[Row]] = {}
    for row in steps:
        depth.setdefault((row["ended_wall"] - origin) // 10**9, []).append(row)
    seconds = [second for second in (*sent, *done, *failed, *depth) if 0 <= second < 86_400]
    span = range(max(seconds, default=-1) + 1)
    return {
        "t": list(span),
        "sent": [sent[second] for second in span],
        "done": [done[second] for second in span],
        "failed": [failed[second] for second in span],
        "waiting": [_mean(row["waiting"] for row in depth.get(second, ())) for second in span],
        "running": [_mean(row["running"] for row in depth.get(second, ())) for second in span],
    }


def _origin(server: Sequence[Row], client: Sequence[Row], start_wall: int) -> int:
    """The client's zero on the wall clock: no request can have been received before it was sent."""
    sent = {row["client_request_id"]: row["sent_ms"] for row in client if row["sent_ms"] is not None}
    offsets = [
        row["received_wall"] - round(sent[row["client_request_id"]] * 1e6) for row in server if row["client_request_id"] in sent
    ]
    return min(offsets, default=start_wall)


def _sum(values: Iterable[int | None]) -> int:
    return sum(value for value in values if value is not None)


def _mean(values: Iterable[int]) -> float | None:
    known = list(values)
    return sum(known) / len(known) if known else None
