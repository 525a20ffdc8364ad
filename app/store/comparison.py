"""Runs side by side: what differs in their settings, then in their figures, with how much of it chance may have made.

The first run is the base. Knows reports and samples, no verdict's rule. Cost is bounded: intervals are bootstrapped from
order statistics (scheduler.metrics.resampling), a run's rows are let go before the next one's are read.
Invariant: equal rows give an equal answer, intervals included: the seed is the name of the figure and the place of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from app.store import report_figures as figures
from app.store.errors import QueryError
from app.store.report_figures import Slo
from app.store.report_rows import gather
from app.store.reports import report_of
from scheduler.metrics import few, interval, quantile_draws, share_draws

MOST_COMPARED = 5
MOST_TENANTS = 12
LEVEL = 0.95
Draws = list[float] | None
_QS = (50, 95, 99)
_SAMPLED = (
    ("client", "ttft_ms"), ("client", "ttft_due_ms"), ("client", "tpot_ms"), ("client", "itl_ms"), ("client", "e2e_ms"),
    ("client", "ntpot_ms"), ("server", "queue_ms"),
)  # fmt: skip
_COUNTED = ("sent", "ok", "failed", "refused", "cancelled", "incomplete")
_PLAIN = (
    ("throughput", "requests_s"), ("throughput", "output_tok_s"), ("goodput", "per_s"), ("goodput", "attainment"),
    ("goodput", "attainment_admitted"), ("goodput", "fluid"), ("fairness", "jain"), ("fairness", "drift", "service"),
    ("fairness", "slowdown_ratio", "value"), ("fairness", "starvation", "longest_ms"), ("fairness", "starvation", "over"),
    ("fairness", "inversions", "inverted"), ("interference", "share"), ("waste", "preemptions_a_request"),
    ("waste", "recomputed_share"), ("waste", "prefix_hit_rate"), ("waste", "kv_used", "mean"), ("waste", "idle_share"),
    ("steps", "budget_used"), ("steps", "preemptions"), *(("reconciliation", name) for name in _COUNTED),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Side:
    """One run: its report, and of each figure that has them how many values it is of and its resamples."""

    report: dict[str, Any]
    draws: dict[str, tuple[int, Draws]]


def compare(connection: Connection, run_ids: Sequence[str], slo: Slo | None = None) -> dict[str, Any]:
    """{runs, differing, warnings, metrics, waits, tenants, interval}. A figure is {name, values, n, few, difference,
    relative, interval}; its lists go by run, and where a figure is undefined they hold None.
    """
    if not 2 <= len(run_ids) <= MOST_COMPARED or len(set(run_ids)) != len(run_ids):
        raise QueryError(f"runs must name 2 to {MOST_COMPARED} different runs", "runs")
    sides = [_side(connection, run_id, place, slo) for place, run_id in enumerate(run_ids)]
    reports = [side.report for side in sides]
    names = ("run", "verdict", "verdict_reason", "headline", "reconciliation")
    shown = [{name: each[name] for name in names} for each in reports]
    for each in shown:
        each["reconciliation"] = {name: each["reconciliation"][name] for name in _COUNTED}
    return {
        "runs": shown,
        "differing": _differing(reports),
        "warnings": _warnings(reports),
        "metrics": [_figure(path, sides) for path in _paths()],
        "waits": _waits(reports),
        "tenants": [_tenant(tenant, sides) for tenant in _tenants(reports)],
        "interval": {
            "level": LEVEL,
            "method": "seeded bootstrap over single requests, as if independent: repeats of a run spread wider",
        },
    }


def _side(connection: Connection, run_id: str, place: int, slo: Slo | None) -> _Side:
    found = gather(connection, run_id)
    samples = figures.samples(found.server, found.client, found.gaps)
    report = report_of(connection, found, samples, slo)
    draws: dict[str, tuple[int, Draws]] = {}
    for side, metric in _SAMPLED:
        values = samples[side][metric]
        for q in _QS:
            name = f"percentiles.{side}.{metric}.p{q}"
            draws[name] = len(values), quantile_draws(values, q, f"{place} {name}")
    for tenant in list(report["fairness"]["tenants"])[:MOST_TENANTS]:
        name = f"fairness.tenants.{tenant}.ttft_ms.p95"
        mine = (row["ttft_ms"] for row in found.server if row["tenant"] == tenant and row["finish"] in figures.WELL)
        times = sorted(time for time in mine if time is not None)
        draws[name] = len(times), quantile_draws(times, 95, f"{place} {name}")
    return _Side(report, draws | _shares(report, place))


def _shares(report: Mapping[str, Any], place: int) -> dict[str, tuple[int, Draws]]:
    """Goodput and attainment: so many good ones among all."""
    good, seconds = report["goodput"], report["throughput"]["duration_s"]
    found: dict[str, tuple[int, Draws]] = {}
    for name, whole in (("attainment", good["n"]), ("attainment_admitted", good["n_admitted"])):
        found[f"goodput.{name}"] = whole, share_draws(good["good"], whole, f"{place} {name}")
    n, draws = found["goodput.attainment"]
    found["goodput.per_s"] = n, [share * n / seconds for share in draws] if draws and seconds else None
    return found


# ---- figures


def _paths() -> list[tuple[str, ...]]:
    return [("percentiles", side, metric, f"p{q}") for side, metric in _SAMPLED for q in _QS] + [*_PLAIN]


def _figure(path: tuple[str, ...], sides: Sequence[_Side], name: str | None = None) -> dict[str, Any]:
    key = ".".join(path)
    values = [_at(side.report, path) for side in sides]
    n = [side.draws[key][0] if key in side.draws else None for side in sides]
    q = int(path[-1][1:]) if path[-1] in ("p50", "p95", "p99") else None
    draws = [side.draws[key][1] if key in side.draws else None for side in sides]
    return {
        "name": name or key,
        "n": n,
        "few": [q is not None and count is not None and few(count, q) for count in n],
        "interval": [None] + [interval(draws[0], each, LEVEL) for each in draws[1:]],
    } | _differences(values)


def _tenant(name: str, sides: Sequence[_Side]) -> dict[str, Any]:
    """TTFT p95 of those of its requests that ended well; `requests`: of how many, since who got no token is not in it."""
    path = ("fairness", "tenants", name)
    requests = [_at(side.report, (*path, "requests")) for side in sides]
    return _figure((*path, "ttft_ms", "p95"), sides, name) | {"requests": requests}


def _at(report: Mapping[str, Any], path: Iterable[str]) -> Any:
    """None where a part of the path is undefined."""
    value: Any = report
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _differences(values: Sequence[float | None]) -> dict[str, Any]:
    base = values[0]
    difference = [None if value is None or base is None else value - base for value in values]
    relative = [None if not base or each is None else each / base for each in difference]
    return {"values": list(values), "difference": difference, "relative": relative}


def _waits(reports: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """By reason: ms in all requests, and its share of the run's waiting."""
    reasons = dict.fromkeys(reason for each in reports for reason in each["waits"])
    found = []
    for reason in reasons:
        mine = [each["waits"].get(reason, {"ms": 0.0, "share": 0.0}) for each in reports]
        found.append({"name": reason, "shares": [each["share"] for each in mine]} | _differences([each["ms"] for each in mine]))
    return sorted(found, key=lambda row: -max(row["values"]))


def _tenants(reports: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted({tenant for each in reports for tenant in list(each["fairness"]["tenants"])[:MOST_TENANTS]})


# ---- like for like


def _differing(reports: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Settings in effect, the scenario's parameters and the seed, where they are not the same in all runs."""
    rows = [*_rows("settings", [each["settings"] for each in reports])]
    rows += _rows("parameters", [each["run"]["parameters"] or {} for each in reports])
    rows += [
        {"name": name, "of": "run", "values": [each["run"][name] for each in reports]}
        for name in ("scenario", "seed", "target")
    ]
    return [row for row in rows if any(value != row["values"][0] for value in row["values"])]


def _rows(of: str, given: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    names = dict.fromkeys(name for each in given for name in each)
    return [{"name": name, "of": of, "values": [each.get(name) for each in given]} for name in names]


def _warnings(reports: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where the runs are not like for like."""
    unlike = [row for row in _differing(reports) if row["of"] != "settings"]
    found = [f"not like for like: {row['name']} {' vs '.join(str(value) for value in row['values'])}" for row in unlike]
    found += [f"run {each['run']['id']} is {each['verdict']}" for each in reports if each["verdict"] != "valid"]
    return found
