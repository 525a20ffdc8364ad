"""Fairness of a run, by tenant: service and how far it drifts apart, latencies, waits by reason, slowdown. Knows no SQL.

From rows, so that a prompt counts as served at its admission, and output tokens evenly from the first to the end; time is
cut into SLOTS even slots. A log says it exactly (scheduler.metrics.served).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.store.models import WAIT_COLUMNS
from app.store.report_rows import Row
from scheduler.errors import SettingsError
from scheduler.metrics import (
    WAIT_REASONS,
    Served,
    Spell,
    Wait,
    extremes_ratio,
    inversions,
    isolated_ms,
    jain,
    percentiles,
    service,
    service_drift,
    service_slots,
    starvation,
    wider,
    window_drift,
)
from scheduler.runners.cost_model import StepShape, load

SLOTS = 600
WINDOWS = 10
MOST_TENANTS = 16  # pairs grow with the square: only those with most service are held against one another
_WELL = ("stop", "length")
_WEIGHT = "weight."  # what the parameters of policies that weigh tenants are called


def fairness(server: Sequence[Row], settings: Mapping[str, Any], hardware: str | None, threshold_ms: float) -> dict[str, Any]:
    """By tenant and over all. Jain's index and the drifts are of service by weight, where the policy weighs tenants."""
    slowdown = _slowdown(settings, hardware)
    weights = _weights(settings)
    served = service((row["tenant"], row["prompt_tokens"] or 0, row["output_tokens"] or 0) for row in server)
    whole = sum(served.values())
    mine: dict[str, list[Row]] = {}
    for row in server:
        mine.setdefault(row["tenant"], []).append(row)
    tenants = {
        tenant: {
            "service": units,
            "share": units / whole if whole else None,
            "weight": weights.get(tenant, 1.0),
        }
        | _tenant(mine[tenant], slowdown)
        for tenant, units in sorted(served.items())
    }
    by = "slowdown" if slowdown else "ntpot_ms"
    found = {
        "tenants": tenants,
        "jain": jain(units / weights.get(tenant, 1.0) for tenant, units in served.items()),
        "slowdown_ratio": {"of": by, "value": extremes_ratio(each[by]["p50"] for each in tenants.values())},
        "starvation": _starvation(server, threshold_ms),
        "inversions": _inversions(server),
    }
    return found | _drift(server, served, weights)


def _tenant(rows: Sequence[Row], slowdown: Callable[[Row], float | None] | None) -> dict[str, Any]:
    well = [row for row in rows if row["finish"] in _WELL]
    waits = {reason: sum(row[column] or 0 for row in rows) for reason, column in zip(WAIT_REASONS, WAIT_COLUMNS, strict=True)}
    return {
        "requests": len(rows),
        "queue_ms": percentiles(row["queue_ms"] for row in rows),
        "ttft_ms": percentiles(row["ttft_ms"] for row in well),
        "ntpot_ms": percentiles(
            (row["e2e_ms"] / row["output_tokens"] if row["output_tokens"] else None for row in well), (50, 95)
        ),
        "slowdown": percentiles(map(slowdown, well), (50, 95)) if slowdown else None,
        "waits_ms": {reason: ns / 1e6 for reason, ns in waits.items() if ns},
        "longest_wait_ms": max((wait for row in rows if (wait := waited_ms(row)) is not None), default=None),
    }


def waited_ms(row: Row) -> float | None:
    """Until the first admission, or until the end of a request that was never admitted; None where it was refused."""
    if row["queue_ms"] is not None or row["finish"] == "rejected":
        return row["queue_ms"]  # type: ignore[no-any-return]
    return row["e2e_ms"]  # type: ignore[no-any-return]


def _starvation(server: Sequence[Row], threshold_ms: float) -> dict[str, Any] | None:
    found = starvation(map(waited_ms, server), threshold_ms)
    if found is None:
        return None
    longest = next(row["id"] for row in server if waited_ms(row) == found.longest)
    return {
        "longest_ms": found.longest,
        "longest_id": longest,
        "over": found.over,
        "threshold_ms": found.threshold,
        "n": found.n,
    }


def _inversions(server: Sequence[Row]) -> dict[str, Any] | None:
    """Rows do not say when the core heard of a request: it counts as held back once it no longer waits for a step to end."""
    spells = []
    for row in server:
        until = row["scheduled_at"] or row["finished_at"]
        if until is not None and row["finish"] != "rejected":
            held = row["received_at"] + (row[WAIT_COLUMNS[0]] or 0)
            spells.append(Spell(row["priority"], min(held, until), until, row["scheduled_at"] is not None))
    found = inversions(spells)
    return None if found is None else {"admissions": found.admissions, "inverted": found.inverted}


def _drift(server: Sequence[Row], served: Mapping[str, int], weights: Mapping[str, float]) -> dict[str, Any]:
    """How far service of backlogged tenants drifted apart: over any stretch, and within a window; None below two tenants."""
    shown = set(sorted(served, key=lambda tenant: (-served[tenant], tenant))[:MOST_TENANTS])
    rows = [row for row in server if row["tenant"] in shown and row["finished_at"] is not None]
    start = min((row["received_at"] for row in rows), default=0)
    end = max((row["finished_at"] for row in rows), default=0)
    if len(shown) < 2 or end - start < SLOTS:
        return {"drift": None}
    edges = [start + (end - start) * i // SLOTS for i in range(SLOTS + 1)]
    fine = service_slots((each for row in rows for each in _served(row)), map(_wait, rows), edges)
    coarse = wider(fine, SLOTS // WINDOWS)
    window_s = (end - start) / WINDOWS / 1e9
    most = service_drift(fine, weights)
    return {"drift": {"service": most, "window_s": window_s, "in_window": window_drift(coarse, weights)}}


def _served(row: Row) -> list[Served]:
    given = []
    if row["scheduled_at"] is not None:
        given.append(Served(row["tenant"], row["scheduled_at"], row["scheduled_at"], row["prompt_tokens"] or 0))
    if row["first_token_at"] is not None:
        given.append(Served(row["tenant"], row["first_token_at"], row["finished_at"], 2 * (row["output_tokens"] or 0)))
    return given


def _wait(row: Row) -> Wait:
    return Wait(row["tenant"], row["received_at"], row["scheduled_at"] or row["finished_at"])


def _weights(settings: Mapping[str, Any]) -> dict[str, float]:
    """Tenant → weight, as the policy was given them; everybody else's is 1."""
    given = settings.get("policy_params") or {}
    return {name.removeprefix(_WEIGHT): float(value) for name, value in given.items() if name.startswith(_WEIGHT)}


def _slowdown(settings: Mapping[str, Any], hardware: str | None) -> Callable[[Row], float | None] | None:
    """E2E / E2E alone by the cost model of the simulated hardware; None where there is no such model."""
    if hardware is None:
        return None
    try:
        model = load(hardware)
    except SettingsError:
        return None  # a file that is no longer there: the figure is undefined, the report is not
    budget = int(settings.get("max_num_batched_tokens") or 0) or 8192
    known: dict[tuple[int, int, int], float] = {}

    def cost(decodes: int, context: int, chunks: tuple[tuple[int, int], ...], finishing: int) -> float:
        return model.step_ms(StepShape(decodes, context, chunks, finishing))

    def of(row: Row) -> float | None:
        shape = row["prompt_tokens"] or 0, row["cached_tokens"] or 0, row["output_tokens"] or 0
        if row["sequences"] != 1 or not shape[0] or not shape[2] or row["e2e_ms"] is None:
            return None
        if shape not in known:
            known[shape] = isolated_ms(cost, *shape, budget)
        return float(row["e2e_ms"]) / known[shape]

    return of
