"""Percentiles are of the rows themselves: of the union of groups, never of their percentiles, never of a bucket's edge."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from played_run import add_lines, line
from records import WALL, Records
from sqlalchemy import insert

from app.store import runs
from app.store.facets import spread_json
from app.store.models import requests
from app.store.runs import NewRun
from app.store.summary import summary_json

GROUPS = {"a": [10.0] * 99 + [1000.0], "b": [200.0] * 50}
BOTH = [value for values in GROUPS.values() for value in values]
OF_MEANS = float(np.mean([np.percentile(values, 95) for values in GROUPS.values()]))


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    made = Records(tmp_path / "records.sqlite3")
    yield made
    made.close()


def fill(records: Records, groups: dict[str, list[float]], run: str = "one") -> None:
    """A run whose tenants' requests had these TTFTs, as its client and the server saw them."""
    new = NewRun(run, WALL - 1, started_wall=WALL - 1, scenario="steady", seed=1)
    records.job(partial(runs.create, run=new))
    told = [(tenant, value) for tenant, values in groups.items() for value in values]
    lines = [line(f"{run}-{n}", n, tenant=t, first_ms=10.0 * n + v, last_ms=10.0 * n + v) for n, (t, v) in enumerate(told)]
    add_lines(records, run, lines)
    shared: dict[str, Any] = {"endpoint": "/v1/completions", "kind": "k", "priority": 0, "state": "finished", "finish": "stop"}
    shared |= {"stream": False, "sequences": 1, "received_at": 0, "received_wall": WALL, "run": run}
    rows = [shared | {"id": f"{run}-{n}", "tenant": tenant, "ttft_ms": value} for n, (tenant, value) in enumerate(told)]
    records.job(lambda connection: connection.execute(insert(requests), rows) and None)
    records.job(partial(runs.change, run_id=run, status="finished", ended_wall=WALL + 10**12))


def test_a_p95_over_groups_is_that_of_all_their_rows(records: Records) -> None:
    fill(records, GROUPS)
    exact = pytest.approx(np.percentile(BOTH, 95))
    report = records.queries.report("one")
    summary = records.queries.ask(summary_json, {"group_by": "tenant"})
    said = {
        "client": report["percentiles"]["client"]["ttft_ms"]["p95"],
        "server": report["percentiles"]["server"]["ttft_ms"]["p95"],
        "spread": records.queries.ask(spread_json, {})["percentiles"]["p95"],
        "summary": summary["total"]["ttft_ms"]["p95"],
    }
    assert said == dict.fromkeys(said, exact) and abs(OF_MEANS - np.percentile(BOTH, 95)) > 50
    for group in summary["groups"]:
        assert group["ttft_ms"]["p95"] == pytest.approx(np.percentile(GROUPS[group["key"]], 95))


def test_of_one_row_every_percentile_is_that_row_and_is_marked_as_of_few(records: Records) -> None:
    fill(records, {"a": [17.0]})
    report = records.queries.report("one")["percentiles"]["client"]["ttft_ms"]
    spread = records.queries.ask(spread_json, {})["percentiles"]
    for figures in (report, spread):
        assert figures["n"] == 1 and [figures[q] for q in ("p50", "p95", "p99")] == [17.0] * 3
        assert {"p50", "p95", "p99"} <= set(figures["few"])
