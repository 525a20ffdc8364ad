"""What a run is worth, and what to try next: figures in, a verdict and one line out. Knows no rows.

invalid            the two sides do not match, or there is nothing to match (or the run failed: reports.py says so)
generator_limited  requests left late, at p99 by over 50 ms and over 5 % of the median TTFT, or the generator's core was full
host_limited       simulated hardware, but the host could not keep its pace
valid              none of these; the first that applies is taken

A limited run's cause can be acted on and its latencies cannot be trusted: the line says the cause first, then how far it holds.
What is to be typed stands between backticks: a page shows it as code, a terminal without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.percents import percents
from app.store.advice import BOUND_SHARE, GROW, MORE_LOAD, NO_BOUND, Memory, suggestion
from app.store.reconcile import mismatch

LATENESS_BOUND_MS = 50.0
LATENESS_SHARE = 0.05  # of the median TTFT: what is late by less cannot have made the latencies
HOST_LATE_SHARE = 0.01
HOST_LATE_TIME = 0.05  # of the steps' time: a host that was late by more made another load of it
LIMITED = ("generator_limited", "host_limited")
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
        return "host_limited", _late(steps)
    return "valid", None


def _late(steps: Mapping[str, Any]) -> str:
    share, time = 100 * steps["host_late"] / steps["n"], 100 * steps["host_late_time"]
    return f"{share:.1f} % of the simulated steps ended late on this host, by {time:.1f} % of all step time"


def _limited(word: str, reason: str | None, late_time: float, run: str) -> str:
    """By what, and what the run still says."""
    if word == "generator_limited":
        return f"generator limited: {reason} (the cause holds for the load that came; latencies may be the generator's)"
    late = f"host limited: steps {100 * late_time:.1f} % late"
    if late_time > HOST_LATE_TIME:
        return f"{late}, so cause and latencies are more this host's; `batchscope simulate --run {run}` needs no host's pace"
    return f"{late}, latencies too long by about as much"


def headline(
    word: str,
    reason: str | None,
    waits: Mapping[str, Mapping[str, Any]],
    settings: Mapping[str, Any],
    *,
    reconciliation: Mapping[str, Any] | None = None,
    steps: Mapping[str, Any] | None = None,
    memory: Memory = NO_BOUND,
    run: str = "RUN",
    heavier: str = MORE_LOAD,
) -> str:
    """The first line: who got no answer, the binding constraint, one setting to try; a valid run's verdict before, why a run
    is limited after it. An invalid one has its reason first: nothing of it holds.
    """
    steps = steps or {}
    cause = _unanswered(reconciliation or {}) + _cause(waits, settings, steps.get("budget_used"), memory, heavier)
    if word in LIMITED:
        return f"{cause}; {_limited(word, reason, steps.get('host_late_time') or 0.0, run)}"
    return f"{word}: {reason}; {cause}" if reason else f"{word}: {cause}"


def _cause(
    waits: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Any], budget_used: float | None, memory: Memory, heavier: str
) -> str:
    """What the waiting was for, and what to try. `step` is no limit: where one made a part of the waiting, it is named too."""
    if not waits:
        return f"nobody waited; try {heavier}"
    ordered = _ordered(waits)
    named = _named(waits)
    bound = sum(waits[name]["share"] for name in ordered if name != "step")
    shown = dict(zip(ordered, percents([waits[name]["share"] for name in ordered]), strict=True))
    said = [f"{shown[name]} % {'for' if n else 'of the waiting was for'} {_WORDS[name]}" for n, name in enumerate(named)]
    advice = suggestion(named[-1], settings, budget_used, memory=memory, bound=bound, heavier=heavier)
    return ", ".join(said) + (f"; try {advice}" if advice else "")


def _ordered(waits: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return sorted(waits, key=lambda name: -waits[name]["ms"])


def _named(waits: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The reason that made most of the waiting; where that is no limit, the first limit that made a part of it, too."""
    ordered = _ordered(waits)
    limits = [name for name in ordered if name in GROW]
    if ordered[:1] == ["step"] and limits and waits[limits[0]]["share"] >= BOUND_SHARE:
        return ["step", limits[0]]
    return ordered[:1]


def bound_by(waits: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The reason that the first line says to have bound; None: nobody waited, or only for steps to end."""
    last = _named(waits)[-1:]
    return None if not last or last == ["step"] else last[0]


def _unanswered(reconciliation: Mapping[str, Any]) -> str:
    """The requests that latencies do not show, since they have none."""
    lost = [f"{reconciliation[name]} {name}" for name in ("failed", "refused") if reconciliation.get(name)]
    return f"{' and '.join(lost)} of {reconciliation['sent']} sent; " if lost else ""
