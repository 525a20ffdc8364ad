"""The union of the pages is the set, in order, whatever the key, with NULLs and ties."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from records import Records, only_sqlite
from sqlalchemy import delete, insert

from app.store.errors import QueryError
from app.store.filters import SORTS, filters, order
from app.store.keyset import count, page
from app.store.models import requests

values = st.one_of(st.none(), st.sampled_from([0.0, 1.5, 1.5, 2.25, 1e9]), st.floats(0, 1e6))
SLOW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def fill(records: Records, rows: list[dict[str, Any]]) -> None:
    shared = {"endpoint": "/v1/completions", "tenant": "t", "kind": "k", "priority": 0, "state": "finished", "received_at": 0}

    def work(connection: Any) -> None:
        connection.execute(delete(requests))
        if rows:
            connection.execute(insert(requests), [shared | {"stream": False, "sequences": 1} | row for row in rows])

    records.job(work)


def all_pages(records: Records, sort: str, size: int, params: dict[str, str] | None = None) -> list[list[str]]:
    found, cursor = [], None
    while True:
        rows, cursor = records.queries.ask(page, filters(params or {}), order(sort), size, cursor)
        found.append([row["id"] for row in rows])
        if cursor is None:
            return found


@SLOW
@given(st.lists(values, max_size=25), st.integers(1, 7), st.booleans())
def test_pages_cover_the_set_once_in_order_nulls_last(
    records: Records, keys: list[float | None], size: int, down: bool
) -> None:
    rows = [{"id": f"r{i:02}", "ttft_ms": key, "received_wall": i} for i, key in enumerate(keys)]
    fill(records, rows)
    pages = all_pages(records, "-ttft_ms" if down else "ttft_ms", size)
    defined = [row for row in rows if row["ttft_ms"] is not None]
    undefined = [row for row in rows if row["ttft_ms"] is None]
    expected = sorted(defined, key=lambda row: (row["ttft_ms"], row["id"]), reverse=down)
    expected += sorted(undefined, key=lambda row: row["id"], reverse=down)
    assert [id for each in pages for id in each] == [row["id"] for row in expected]
    assert all(len(each) == size for each in pages[:-1])


@pytest.mark.parametrize("key", sorted(SORTS))
def test_every_sort_key_pages(records: Records, key: str) -> None:
    fill(records, [{"id": f"r{i}", "received_wall": i // 2, "tpot_ms": float(i % 3), "preemptions": i % 2} for i in range(7)])
    for sort in (key, f"-{key}"):
        assert sorted(id for each in all_pages(records, sort, 2) for id in each) == [f"r{i}" for i in range(7)]


def test_rows_that_arrive_meanwhile_move_no_page(records: Records) -> None:
    rows = [{"id": f"r{i}", "received_wall": i} for i in range(6)]
    fill(records, rows)
    first, cursor = records.queries.ask(page, filters({}), order("-received"), 3, None)
    fill(records, [*rows, {"id": "new", "received_wall": 99}])
    second, _ = records.queries.ask(page, filters({}), order("-received"), 3, cursor)
    assert [row["id"] for row in first + second] == ["r5", "r4", "r3", "r2", "r1", "r0"]


def test_a_cursor_works_with_its_own_question_only(records: Records) -> None:
    fill(records, [{"id": f"r{i}", "received_wall": i} for i in range(4)])
    _, cursor = records.queries.ask(page, filters({"tenant": "t"}), order("-received"), 2, None)
    for params, sort in (({"tenant": "t"}, "received"), ({}, "-received"), ({"tenant": "u"}, "-received")):
        with pytest.raises(QueryError, match="belongs to other") as caught:
            records.queries.ask(page, filters(params), order(sort), 2, cursor)
        assert caught.value.param == "cursor"


@pytest.mark.parametrize("cursor", ["x", "!!!!", "bnVsbA", "WzEsMl0", "W10", "\u00e9", "e30"])
def test_a_made_up_cursor_is_refused(records: Records, cursor: str) -> None:
    with pytest.raises(QueryError) as caught:
        records.queries.ask(page, filters({}), order(None), 2, cursor)
    assert caught.value.param == "cursor"


def test_counting_stops_at_its_bound_and_says_so(records: Records) -> None:
    fill(records, [{"id": f"r{i}", "received_wall": i} for i in range(5)])
    assert records.queries.ask(count, filters({}), 5) == (5, True)
    assert records.queries.ask(count, filters({}), 4) == (4, False)


@only_sqlite
def test_a_page_in_the_middle_is_found_by_its_index(records: Records) -> None:
    plan = records.sql(
        "EXPLAIN QUERY PLAN SELECT * FROM requests WHERE run = 'x' AND ttft_ms IS NOT NULL AND (ttft_ms, id) < (5.0, 'r') "
        "ORDER BY ttft_ms DESC, id DESC LIMIT 50"
    )
    assert "USING INDEX ix_requests_run_ttft_ms (run=? AND ttft_ms>? AND ttft_ms<?)" in plan[0][3]
    assert [row[3] for row in plan[1:]] == ["USE TEMP B-TREE FOR RIGHT PART OF ORDER BY"], "only ties are sorted, by id"
