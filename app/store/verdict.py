"""What a run is worth, and what to try next: figures in, a verdict and one line out. Knows no rows.

invalid            the two sides do not match, or there is nothing to match (or the run failed: reports.py says so)
generator_limited  requests left late, at p99 by over 50 ms and over 5 % of the median TTFT, or the generator's core was full
host_limited       simulated hardware, but the host could not keep its pace
valid              none of these; the first that applies is taken
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.store.reconcile import mismatch

LATENESS_BOUND_MS = 50.0
LATENESS_SHARE = 0.05  # of the median TTFT: what is late by less cannot have made the latencies
HOST_LATE_SHARE = 0.01
BUDGET_SHARE = 0.5  # steps that use less of their token budget would be as long with half of it
_WORDS = {
    "step": "the running step to end",
    "slots": "slots",
    "token_budget": "token budget",
    "kv_blocks": "KV blocks",
    "prefill_cap": "the cap on prefills",
    "quota": "a tenant's quota",
    "static_batch": "the static batch to end",
    "engine_down": "the engine to come back",
    "paused": "an operator to resume",
}
_GROW = {"slots": "max_num_seqs", "token_budget": "max_num_batched_tokens", "kv_blocks": "kv_cache_tokens"}


def verdict(report: Mapping[str, Any], *, cpu_high: bool, simulated: bool, server_side: bool) -> tuple[str, str | None]:
    """(verdict, reason); the reason of a valid run is None."""
    reconciliation = report["reconciliation"]
    if not reconciliation["sent"]:
        return "invalid", "the load generator reported no request"
    broken = mismatch(reconciliation) if server_side else None
    if broken:
        return "invalid", broken
    client = report["percentiles"]["client"]
    late, bound = client["lateness_ms"]["p99"], max(LATENESS_BOUND_MS, LATENESS_SHARE * (client["ttft_ms"]["p50"] or 0.0))
    if late is not None and late > bound:
        return "generator_limited", f"requests left {late:.0f} ms late at p99 (bound {bound:.0f} ms)"
    if cpu_high:
        return "generator_limited", "the load generator's core was full"
    steps = report["steps"]
    if simulated and steps["n"] and steps["host_late"] > HOST_LATE_SHARE * steps["n"]:
        share = 100 * steps["host_late"] / steps["n"]
        return "host_limited", f"{share:.1f} % of the simulated steps ended late on this host"
    return "valid", None


def headline(
    word: str,
    reason: str | None,
    waits: Mapping[str, Mapping[str, Any]],
    settings: Mapping[str, Any],
    *,
    reconciliation: Mapping[str, Any] | None = None,
    budget_used: float | None = None,
) -> str:
    """The first line: the verdict, who got no answer, the binding constraint, one setting to try."""
    said = f"{word}: {reason}; " if reason else f"{word}: "
    said += _unanswered(reconciliation or {})
    if not waits:
        return said + "nobody waited; try a higher rate"
    top = max(waits, key=lambda name: waits[name]["ms"])
    line = f"{said}{100 * waits[top]['share']:.0f} % of the waiting was for {_WORDS[top]}"
    advice = suggestion(top, settings, budget_used)
    return f"{line}; try {advice}" if advice else line


def _unanswered(reconciliation: Mapping[str, Any]) -> str:
    """The requests that latencies do not show, since they have none."""
    lost = [f"{reconciliation[name]} {name}" for name in ("failed", "refused") if reconciliation.get(name)]
    return f"{' and '.join(lost)} of {reconciliation['sent']} sent; " if lost else ""


def suggestion(reason: str, settings: Mapping[str, Any], budget_used: float | None = None) -> str | None:
    """One setting to try against this kind of waiting: the next power of two above what was in effect."""
    if reason in _GROW:
        name = _GROW[reason]
        now = settings.get(name)
        return f"{name} {1 << int(now).bit_length()}" if isinstance(now, int) and now > 0 else f"a higher {name}"
    return {
        "prefill_cap": "a higher itl_target_ms",
        "static_batch": "batching continuous",
        "quota": "a higher quota for that tenant",
        "step": _shorter_steps(settings, budget_used),
    }.get(reason)


def _shorter_steps(settings: Mapping[str, Any], budget_used: float | None) -> str:
    """Arrivals only wait for a step to end: shorter steps, where the budget is what makes them long."""
    now, seqs = settings.get("max_num_batched_tokens"), settings.get("max_num_seqs")
    idle = budget_used is not None and budget_used < BUDGET_SHARE
    if idle or not isinstance(now, int) or not isinstance(seqs, int) or now // 2 < seqs:
        return "a higher rate: the limits did not bind"
    return f"max_num_batched_tokens {now // 2} for shorter steps"
