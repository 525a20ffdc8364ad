"""Pages merged from the runs are the pages of one sort: every key, both directions, ties, filters, simulated runs left out."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from records import Records, only_sqlite
from sqlalchemy import delete, event, insert

from app.store import drawers, runs
from app.store.facets import spread_json
from app.store.filters import SIMULATED, filters, order
from app.store.models import requests
from app.store.runs import NewRun

KEPT = {"tenant": "t", "kind": "k", "priority": 0, "state": "finished", "received_at": 0, "stream": False, "sequences": 1}
keys = st.one_of(st.none(), st.sampled_from([1.0, 2.0, 3.0]), st.floats(0, 1e3))
rows_of = st.lists(
    st.tuples(st.sampled_from([None, "run_a", "run_b", "run_c", "run_simulated"]), keys, st.sampled_from("tu")), max_size=40
)


def fill(records: Records, made: list[dict[str, Any]]) -> None:
    def work(connection: Any) -> None:
        connection.execute(delete(requests))
        if made:
            connection.execute(insert(requests), made)

    records.job(work)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows_of,
    st.integers(1, 9),
    st.sampled_from(drawers.KEYS),
    st.booleans(),
    st.sampled_from([{}, {"tenant": "t"}, {"run": "run_b"}]),
)
def test_merged_pages_are_those_of_one_sort(
    records: Records, made: list[Any], size: int, key: str, down: bool, params: dict[str, str]
) -> None:
    rows = [
        KEPT | {"id": f"r{n:02}", "run": run, key: value, "tenant": tenant, "received_wall": n}
        | {"endpoint": SIMULATED if run == "run_simulated" else "/v1/completions"}
        for n, (run, value, tenant) in enumerate(made)
    ]  # fmt: skip
    fill(records, rows)
    mine = [row for row in rows if row["endpoint"] != SIMULATED and all(row[name] == value for name, value in params.items())]
    expected = sorted((row for row in mine if row[key] is not None), key=lambda row: (row[key], row["id"]), reverse=down)
    expected += sorted((row for row in mine if row[key] is None), key=lambda row: row["id"], reverse=down)
    spread = records.queries.ask(spread_json, params | {"measure": key})
    assert (spread["percentiles"]["n"], spread["undefined"]) == (
        len([row for row in mine if row[key] is not None]),
        len([row for row in mine if row[key] is None]),
    )
    assert drawers.serve(filters(params), order(key))
    assert records.page_by_page(f"-{key}" if down else key, size, params) == [row["id"] for row in expected]


@pytest.mark.parametrize("sort", ["-ttft_ms", "queue_ms"])
def test_runs_that_are_asked_for_by_their_name_are_there_when_they_were_simulated(records: Records, sort: str) -> None:
    key = sort.removeprefix("-")
    fill(records, [KEPT | {"id": "r", "run": "run_s", "endpoint": SIMULATED, key: 1.0, "received_wall": 0}])
    new = NewRun("run_s", 0, name="named", status="finished")
    records.job(partial(runs.create, run=new))
    assert records.page_by_page(sort, 9, {"run": "named"}) == ["r"]


@only_sqlite
@pytest.mark.parametrize("sort", ["-ttft_ms", "queue_ms"])
def test_only_drawers_that_can_have_a_row_of_the_page_are_opened(records: Records, sort: str) -> None:
    key, step = sort.removeprefix("-"), -1 if sort.startswith("-") else 1
    made = [
        KEPT | {"id": f"r{run:02}-{n:02}", "run": f"run{run:02}", key: float(step * (100 * run + n)), "received_wall": n}
        | {"endpoint": "/v1/completions"}
        for run in range(30)
        for n in range(20)
    ]  # fmt: skip
    fill(records, made)
    opened = asked(records, {}, sort, [f"r00-{n:02}" for n in range(10)])
    assert len(opened) == 2 + 2, "the best of each, those of no run, and one run, looked into twice"


@only_sqlite
def test_a_drawer_is_read_in_its_order_whatever_the_filter_has_an_index_for(records: Records) -> None:
    fill(records, [])
    for params in ({"run": "run_x", "min_ttft_ms": "5", "tenant": "t"}, {"run": "run_x", "min_queue_ms": "5"}):
        [(statement, values)] = asked(records, params, "-queue_ms", [])
        plan = records.sql(f"EXPLAIN QUERY PLAN {statement}", *values)
        assert "USING INDEX ix_requests_run_queue_ms (run=? AND queue_ms>?)" in plan[0][3]
        assert [row[3] for row in plan[1:]] == ["USE TEMP B-TREE FOR RIGHT PART OF ORDER BY"], "only ties are sorted, by id"


def asked(records: Records, params: dict[str, str], sort: str, expected: list[str]) -> list[tuple[str, Any]]:
    """The statements, with their values, that a first page of ten took."""
    heard = list[tuple[str, Any]]()

    def ask(connection: Any) -> list[str]:
        event.listen(connection, "before_cursor_execute", lambda _c, _k, text, values, *_: heard.append((text, values)))
        return drawers.first(connection, filters(params), order(sort), 10, None)

    assert records.queries.ask(ask) == expected
    return heard
