"""Figures over a filtered set of requests: counts, exact percentiles, a histogram. Knows no HTTP.

Invariant: every figure is of exactly the rows that the list shows for the same filters; nothing is estimated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select

from app.store.errors import QueryError
from app.store.filters import MEASURES, filters, limit
from app.store.models import requests
from scheduler.metrics import percentiles

GROUPS = ("policy", "tenant", "kind", "state", "finish", "model", "run", "top_wait", "endpoint", "status_code")
FIGURES = ("ttft_ms", "tpot_ms", "queue_ms", "e2e_ms")
MAX_ROWS = 500_000
_ALSO = ("group_by", "histogram", "bins", "sort", "limit", "cursor")


def summary_json(connection: Connection, params: Mapping[str, str]) -> dict[str, Any]:
    """{groups: [{key, count, finish, tokens, figures}], total: the same over all, histogram, truncated}."""
    asked = filters(params, also=_ALSO)
    group_by = params.get("group_by") or None
    if group_by is not None and group_by not in GROUPS:
        raise QueryError(f"group_by must be one of {', '.join(GROUPS)}, not {group_by!r}", "group_by")
    measure = params.get("histogram") or "ttft_ms"
    if measure not in MEASURES:
        raise QueryError(f"histogram must be one of {', '.join(MEASURES)}, not {measure!r}", "histogram")
    bins = limit(params.get("bins"), 500, 60, "bins")
    table = requests.c
    columns = [table[name] for name in dict.fromkeys((*FIGURES, measure, "finish", "prompt_tokens", "output_tokens"))]
    key = (table[group_by] if group_by else table.id).label("key")
    question = select(key, *columns).where(*asked.conditions).limit(MAX_ROWS + 1)
    rows = [dict(row) for row in connection.execute(question).mappings()]
    truncated, rows = len(rows) > MAX_ROWS, rows[:MAX_ROWS]
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in rows if group_by else ():
        groups.setdefault(row["key"], []).append(row)
    listed = sorted(groups.items(), key=lambda pair: (-len(pair[1]), str(pair[0])))
    return {
        "group_by": group_by,
        "groups": [{"key": name} | _figures(members) for name, members in listed],
        "total": _figures(rows),
        "histogram": {"measure": measure} | histogram([row[measure] for row in rows], bins),
        "truncated": truncated,
    }


def histogram(values: list[float | None], bins: int) -> dict[str, Any]:
    """{edges: n + 1, counts: n}: equal ratios where the values span more than one decade, else equal widths."""
    known = [value for value in values if value is not None]
    if not known:
        return {"edges": [], "counts": [], "scale": "linear"}
    low, high = min(known), max(known)
    if low == high:
        return {"edges": [low, high], "counts": [len(known)], "scale": "linear"}
    log = low > 0 and high / low > 10
    ends = (math.log(low), math.log(high)) if log else (low, high)
    width = (ends[1] - ends[0]) / bins
    counts = [0] * bins
    for value in known:
        place = ((math.log(value) if log else value) - ends[0]) / width
        counts[min(bins - 1, max(0, int(place)))] += 1
    edges = [math.exp(ends[0] + width * i) if log else ends[0] + width * i for i in range(bins + 1)]
    edges[0], edges[-1] = low, high
    return {"edges": edges, "counts": counts, "scale": "log" if log else "linear"}


def _figures(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "count": len(rows),
        "finish": dict(Counter(row["finish"] or "open" for row in rows)),
        "prompt_tokens": sum(row["prompt_tokens"] or 0 for row in rows),
        "output_tokens": sum(row["output_tokens"] or 0 for row in rows),
        **{name: percentiles(row[name] for row in rows) for name in FIGURES},
    }
