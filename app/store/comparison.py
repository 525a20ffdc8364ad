"""Runs side by side, or one run before and after a change: what differs in settings, then in figures, and what chance may make.

The first is the base. Knows reports and samples, no verdict's rule. What a run brings to it was kept at its end
(run_summary.py); where that is out of date it is made anew, and a run's rows are let go before the next one's are read.
Invariant: equal questions give equal answers, intervals included, whether a side was kept or is made anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from app.store import comparison_likeness as likeness
from app.store import comparison_split as splits
from app.store import run_summary
from app.store.comparison_reading import reading
from app.store.comparison_sentence import sentence
from app.store.comparison_side import LINES, MOST_TENANTS, QS, SAMPLED, Side, side_of
from app.store.comparison_split import Half
from app.store.errors import QueryError
from app.store.report_figures import Slo
from app.store.report_rows import gather
from scheduler.metrics import few, interval, ratio_interval

MOST_COMPARED = 5
LEVEL = 0.95
_SHARES = ("goodput.attainment", "goodput.attainment_admitted")  # shown in points: their difference is what is read
_COUNTED = ("sent", "ok", "failed", "refused", "cancelled", "incomplete")
_PLAIN = (
    ("throughput", "requests_s"), ("throughput", "output_tok_s"), ("throughput", "offered_s"),
    ("goodput", "per_s"), ("goodput", "attainment"),
    ("goodput", "attainment_admitted"), ("goodput", "fluid"), ("fairness", "jain"), ("fairness", "drift", "service"),
    ("fairness", "slowdown_ratio", "value"), ("fairness", "starvation", "longest_ms"), ("fairness", "starvation", "over"),
    ("fairness", "inversions", "inverted"), ("interference", "share"), ("waste", "preemptions_a_request"),
    ("waste", "recomputed_share"), ("waste", "prefix_hit_rate"), ("waste", "kv_used", "mean"), ("waste", "idle_share"),
    ("steps", "budget_used"), ("steps", "preemptions"), *(("reconciliation", name) for name in _COUNTED),
)  # fmt: skip


def compare(
    connection: Connection, run_ids: Sequence[str], slo: Slo | None = None, *, split: str | None = None, lines: bool = False
) -> dict[str, Any]:
    """{runs, sentence, differing, equal, warnings, metrics, waits, tenants, interval, split}. A figure is {name, values, n,
    few, difference, relative, interval, relative_interval, better, reading}; its lists go by run, and where it is undefined
    they hold None. `interval` is of the difference, `relative_interval` of the relative change.

    split: the two sides of one run (see comparison_split). lines: each run has its `cdfs` and its `series` too.
    """
    if split is not None:
        made, sides = _split_sides(connection, run_ids, slo, split, lines)
    else:
        made, sides = None, _run_sides(connection, run_ids, slo, lines)
    reports = [side.report for side in sides]
    differing, equal = likeness.settings(reports)
    changes = [side.extra["changes"] for side in sides]
    again = set[int]() if made else likeness.repeats(reports, changes, differing)
    metrics = [_figure(path, sides, again) for path in _paths()]
    unlike = likeness.warnings(reports, changes, differing)
    return {
        "sentence": sentence(
            metrics,
            repeats=again,
            host_limited={place for place, each in enumerate(reports) if each["verdict"] == "host_limited"},
            within="this one run" if made else "these two runs",
        ),
        "runs": [_shown(side) for side in sides],
        "split": made,
        "differing": differing,
        "equal": equal,
        "warnings": unlike if made else unlike + likeness.offered(reports),
        "metrics": metrics,
        "waits": _waits(reports),
        "tenants": [_tenant(tenant, sides, again) for tenant in _tenants(reports)],
        "interval": {
            "level": LEVEL,
            "method": "seeded bootstrap over single requests, as if independent: repeats of a run spread wider",
        },
    }


def _run_sides(connection: Connection, run_ids: Sequence[str], slo: Slo | None, lines: bool) -> list[Side]:
    if not 2 <= len(run_ids) <= MOST_COMPARED or len(set(run_ids)) != len(run_ids):
        raise QueryError(f"runs must name 2 to {MOST_COMPARED} different runs", "runs")
    return [_lined(run_summary.side(connection, run_id, slo), lines) for run_id in run_ids]


def _split_sides(
    connection: Connection, run_ids: Sequence[str], slo: Slo | None, text: str, lines: bool
) -> tuple[dict[str, Any], list[Side]]:
    if len(run_ids) != 1:
        raise QueryError("runs must name one run where it is split", "runs")
    found = gather(connection, run_ids[0])
    change, halves = splits.split(connection, found, text)
    zero = splits.zero(found)
    sides = [_lined(side_of(connection, half.found, half.side, slo, zero, _of_half(half)), lines) for half in halves]
    for side in sides:  # what a run is worth is judged whole
        side.report.update(verdict=found.run["verdict"], verdict_reason=found.run["verdict_reason"])
    return change.as_json | {"across": splits.across(found, change.wall)}, sides


def _of_half(half: Half) -> dict[str, Any]:
    return {"changes": []} | half.as_json


def _lined(side: Side, lines: bool) -> Side:
    """With its lines, or without."""
    return side if lines else replace(side, extra={name: value for name, value in side.extra.items() if name not in LINES})


def _shown(side: Side) -> dict[str, Any]:
    names = ("run", "settings", "simulated", "verdict", "verdict_reason", "headline", "reconciliation")
    shown = {name: side.report[name] for name in names} | side.extra
    shown["reconciliation"] = {name: side.report["reconciliation"][name] for name in _COUNTED}
    return shown


# ---- figures


def _paths() -> list[tuple[str, ...]]:
    return [("percentiles", side, metric, f"p{q}") for side, metric in SAMPLED for q in QS] + [*_PLAIN]


def _figure(path: tuple[str, ...], sides: Sequence[Side], repeats: Collection[int], name: str | None = None) -> dict[str, Any]:
    key = ".".join(path)
    values = [_at(side.report, path) for side in sides]
    n = [side.draws[key][0] if key in side.draws else None for side in sides]
    q = int(path[-1][1:]) if path[-1] in ("p50", "p95", "p99") else None
    draws = [side.draws[key][1] if key in side.draws else None for side in sides]
    spread = [None] + [interval(draws[0], each, LEVEL) for each in draws[1:]]
    relative = [None] + [ratio_interval(draws[0], each, LEVEL) for each in draws[1:]]
    shown = spread if key in _SHARES else [each or plain for each, plain in zip(relative, spread, strict=True)]
    return {
        "name": name or key,
        "n": n,
        "few": [q is not None and count is not None and few(count, q) for count in n],
        "interval": spread,
        "relative_interval": relative,
        **reading(key, n, shown, repeats),
    } | _differences(values)


def _tenant(name: str, sides: Sequence[Side], repeats: Collection[int]) -> dict[str, Any]:
    """TTFT p95 of those of its requests that ended well; `requests`: of how many, since who got no token is not in it."""
    path = ("fairness", "tenants", name)
    requests = [_at(side.report, (*path, "requests")) for side in sides]
    return _figure((*path, "ttft_ms", "p95"), sides, repeats, name) | {"requests": requests}


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
