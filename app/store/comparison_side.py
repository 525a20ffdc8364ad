"""What one run, or one side of one, brings to a comparison: its report, its lines, and what chance may make of each figure.

Rows in, values out; knows no table. Resamples are kept as single-precision numbers, also where they are made and used at once.
Invariant: the same rows of the same run give the same side: the seed is the name of the figure and that of the run or side,
so that no two sides share their chance.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import Connection

from app.store import comparison_curves as curves
from app.store import report_figures as figures
from app.store.report_figures import Slo
from app.store.report_rows import Gathered
from app.store.reports import report_of
from scheduler.metrics import quantile_draws, share_draws

MOST_TENANTS = 12
QS = (50, 95, 99)
SAMPLED = (
    ("client", "ttft_ms"), ("client", "ttft_due_ms"), ("client", "tpot_ms"), ("client", "itl_ms"), ("client", "e2e_ms"),
    ("client", "ntpot_ms"), ("server", "queue_ms"),
)  # fmt: skip
LINES = ("cdfs", "series")
Draws: TypeAlias = "array[float] | None"


@dataclass(frozen=True, slots=True)
class Side:
    """One run, or a side of one: its report; of each figure that has them how many values it is of, and its resamples.

    extra: what else is shown of it: the changes within it, its lines, which side it is.
    """

    report: dict[str, Any]
    draws: dict[str, tuple[int, Draws]]
    extra: dict[str, Any]


def side_of(connection: Connection, found: Gathered, name: str, slo: Slo | None, zero: int, extra: Mapping[str, Any]) -> Side:
    """Of rows that are at hand. `name`: whose chance it is; `zero`: epoch ns of the run's t = 0."""
    samples = figures.samples(found.server, found.client, found.gaps)
    report = report_of(connection, found, samples, slo)
    report["engine"] = {each: found.life.get(each) for each in ("model", "runner", "hardware")}
    lines = {"cdfs": curves.cdfs(samples), "series": curves.series(found.steps, zero)}
    draws: dict[str, tuple[int, Draws]] = {}
    for side, metric in SAMPLED:
        values = samples[side][metric]
        for q in QS:
            figure = f"percentiles.{side}.{metric}.p{q}"
            draws[figure] = len(values), _kept(quantile_draws(values, q, f"{name} {figure}"))
    for tenant in list(report["fairness"]["tenants"])[:MOST_TENANTS]:
        figure = f"fairness.tenants.{tenant}.ttft_ms.p95"
        mine = (row["ttft_ms"] for row in found.server if row["tenant"] == tenant and row["finish"] in figures.WELL)
        times = sorted(time for time in mine if time is not None)
        draws[figure] = len(times), _kept(quantile_draws(times, 95, f"{name} {figure}"))
    return Side(report, draws | _shares(report, name), {**extra, **lines})


def _shares(report: Mapping[str, Any], name: str) -> dict[str, tuple[int, Draws]]:
    """Goodput and attainment: so many good ones among all."""
    good, seconds = report["goodput"], report["throughput"]["duration_s"]
    found: dict[str, tuple[int, Draws]] = {}
    for share, whole in (("attainment", good["n"]), ("attainment_admitted", good["n_admitted"])):
        found[f"goodput.{share}"] = whole, _kept(share_draws(good["good"], whole, f"{name} {share}"))
    n, draws = found["goodput.attainment"]
    found["goodput.per_s"] = n, _kept([share * n / seconds for share in draws]) if draws and seconds else None
    return found


def _kept(draws: list[float] | None) -> Draws:
    return None if draws is None else array("f", draws)
