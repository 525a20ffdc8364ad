"""Rows of a timeline: no two bars of a row overlap, a request keeps its row, a tenant's rows lie together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from simulated_records import RUN, SECOND, Recorded

from app.store.lanes import lay_out
from app.store.queries import Queries
from app.store.segments import Bar
from scheduler.simulate import Ask


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queries]:
    """Fifty requests of two tenants through four slots and little memory: they queue, and some are preempted."""
    path: Path = tmp_path_factory.mktemp("lanes") / "records.sqlite3"
    asks = [Ask(n * SECOND // 40, 60 + 10 * (n % 9), 60 + n % 13, tenant="ab"[n % 2]) for n in range(50)]
    Recorded(path, asks, max_num_seqs=4, max_model_len=512, kv_cache_tokens=512).close()
    made = Queries(f"sqlite:///{path}")
    yield made
    made.close()


def bars(queries: Queries, **params: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    found = queries.segments({"run": RUN, **params})
    columns = found["segments"]
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)], found


@pytest.mark.parametrize("rows", ["slot", "request", "tenant"])
def test_no_two_bars_of_a_row_overlap_and_the_groups_hold_all_rows(queries: Queries, rows: str) -> None:
    placed, found = bars(queries, rows=rows)
    lanes = defaultdict(list)
    for bar in placed:
        if bar["lane"] >= 0:
            lanes[bar["lane"]].append((bar["t0"], bar["t1"]))
    assert all(earlier[1] <= later[0] for spans in lanes.values() for earlier, later in pairwise(sorted(spans)))
    assert set(lanes) == set(range(sum(group["lanes"] for group in found["groups"])))


def test_a_row_a_slot_and_whoever_holds_none_has_no_row(queries: Queries) -> None:
    placed, found = bars(queries)
    assert found["groups"] == [{"label": "slot", "lanes": 4}] and found["start_ms"] == 0.0
    assert all(bar["lane"] == bar["slot"] for bar in placed)
    assert {bar["phase"] for bar in placed if bar["lane"] < 0} == {"queued", "preempted"}


def test_a_request_keeps_one_row_and_takes_the_topmost_that_is_free(queries: Queries) -> None:
    placed, found = bars(queries, rows="request")
    rows = defaultdict(set)
    for bar in placed:
        rows[bar["id"]].add(bar["lane"])
    assert all(len(lanes) == 1 for lanes in rows.values())
    alive = [(bar["t0"], bar["t1"], bar["id"]) for bar in placed]
    most = max(len({id for t0, t1, id in alive if t0 <= at < t1}) for at, _, _ in alive)
    assert found["groups"] == [{"label": "request", "lanes": most}], "as many rows as were alive at once, no more"


def test_the_rows_of_a_tenant_lie_together(queries: Queries) -> None:
    placed, found = bars(queries, rows="tenant")
    assert [group["label"] for group in found["groups"]] == ["a", "b"]
    border = found["groups"][0]["lanes"]
    assert all((bar["lane"] < border) == (bar["tenant"] == "a") for bar in placed)


def test_a_window_holds_the_bars_that_touch_it_and_no_others(queries: Queries) -> None:
    everything, _ = bars(queries)
    within, found = bars(queries, since="2000", until="4000")
    assert within == [bar for bar in everything if bar["t0"] < 4000 and bar["t1"] >= 2000]
    assert 0 < found["total"] == len(within) < len(everything)


def test_an_open_request_keeps_its_row_for_ever() -> None:
    late = Bar("late", 1, 2, 0, "decode", 9, "a", 12)
    lay_out([Bar("open", 1, 1, 0, "decode", 0, "a"), late], "request")
    assert late.lane == 1
