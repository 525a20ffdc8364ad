"""What a filtered set holds, by field: the counts beside the filters, and how a measure is spread. Knows no HTTP.

A facet leaves its own filter out, so that one sees what else there is (but for the run's: the other runs are all the records).
Invariant: every count and percentile is exact, of the rows that the list shows; one that was not ready within its time is null,
with `timed_out`, never an estimate.
"""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, select

from app.store import drawers
from app.store.errors import QueryError
from app.store.fields import MEASURES, is_duration
from app.store.filters import Filters, filters, limit
from app.store.models import requests
from app.store.patience import within
from scheduler.metrics import ordered_percentiles

FACETS = ("state", "finish", "top_wait", "tenant", "kind", "policy", "run")
MOST = 8  # values a facet
ONE_S, ALL_S, LEAST_S = 0.2, 0.8, 0.01  # time for one facet, for all, and for one when all of it is spent
SPREAD_S = 2.0
MAX_VALUES = 2_000_000
_PAGING = ("sort", "limit", "cursor")


def facets_json(connection: Connection, params: Mapping[str, str]) -> dict[str, Any]:
    """GET /api/requests/facets: {facets: [{field, values: [{value, count}] | null, more, timed_out}]}."""
    asked = dict(filters(params, also=_PAGING).given)
    end = time.monotonic() + ALL_S
    return {"facets": [_facet(connection, name, asked, min(ONE_S, max(LEAST_S, end - time.monotonic()))) for name in FACETS]}


def _facet(connection: Connection, name: str, asked: Mapping[str, str], seconds: float) -> dict[str, Any]:
    column, n = requests.c[name], func.count()
    others = filters({param: value for param, value in asked.items() if param != name or name == "run"})
    counted = select(column, n).where(*others.conditions, column.is_not(None)).group_by(column)
    question = counted.order_by(n.desc(), column).limit(MOST + 1)
    found = within(connection, seconds, lambda: connection.execute(question).all())
    values = None if found is None else [{"value": value, "count": count} for value, count in found[:MOST]]
    return {"field": name, "values": values, "more": bool(found and len(found) > MOST), "timed_out": found is None}


def spread_json(connection: Connection, params: Mapping[str, str]) -> dict[str, Any]:
    """GET /api/requests/spread: {measure, unit, percentiles, histogram, undefined, timed_out} of one measure."""
    measure = params.get("measure") or "ttft_ms"
    if measure not in MEASURES:
        raise QueryError(f"measure must be one of {', '.join(MEASURES)}, not {measure!r}", "measure")
    bins = limit(params.get("bins"), 500, 60, "bins")
    asked = filters(params, also=(*_PAGING, "measure", "bins"))
    found = within(connection, SPREAD_S, lambda: _values(connection, asked, measure))
    late = found is None or found.rows > MAX_VALUES
    values = np.array([] if found is None else found.values, float)  # what is undefined becomes a NaN
    values = np.sort(values[~np.isnan(values)], kind="stable")  # it comes sorted by run
    return {
        "measure": measure,
        "unit": "ms" if is_duration(measure) else None,
        "percentiles": None if late else ordered_percentiles(array("d", values.tobytes())),
        "histogram": None if late else _histogram(values, bins),
        "undefined": None if found is None or late else found.rows - len(values),
        "timed_out": late,
    }


@dataclass(frozen=True, slots=True)
class _Values:
    """`values` may lack some of the undefined among so many rows."""

    values: list[float | None]
    rows: int


def _values(connection: Connection, asked: Filters, measure: str) -> _Values:
    """The driver's own rows: SQLAlchemy's would take twice as long, and there may be a million."""
    rows: int | None = None
    if measure in drawers.KEYS and (not asked.given or (asked.run and len(asked.given) == 1)):
        questions, rows = drawers.values(connection, measure, asked.run)
    else:
        questions = [select(requests.c[measure]).where(*asked.conditions)]
    found = list[float | None]()
    for question in questions:
        cursor: Any = connection.execute(question.limit(MAX_VALUES + 1 - len(found))).cursor
        found += [value for (value,) in cursor.fetchall()]
    return _Values(found, len(found) if rows is None else rows)


@dataclass(frozen=True, slots=True)
class _Axis:
    edges: list[float]
    scale: str


def _axis(low: float, high: float, bins: int) -> _Axis:
    """Equal ratios where values span more than one decade above 0, else equal widths."""
    if low > 0 and high / low > 10:
        first, width = math.log(low), math.log(high / low) / bins
        inner = [math.exp(first + width * i) for i in range(1, bins)]
        return _Axis([low, *inner, high], "log")
    return _Axis([low + (high - low) * i / bins for i in range(bins)] + [high], "linear")


def _histogram(values: np.ndarray[Any, np.dtype[np.float64]], bins: int) -> dict[str, Any]:
    """{edges: n + 1, counts: n, scale}: half-open bins, the last one closed."""
    if not len(values):
        return {"edges": [], "counts": [], "scale": "linear"}
    low, high = float(values[0]), float(values[-1])
    if low == high:
        return {"edges": [low, high], "counts": [len(values)], "scale": "linear"}
    axis = _axis(low, high, bins)
    places = [*np.searchsorted(values, axis.edges[:-1], "left").tolist(), len(values)]
    return {"edges": axis.edges, "counts": [after - before for before, after in pairwise(places)], "scale": axis.scale}
