"""Counts and percentiles beside the list are those of its rows, exact or plainly not there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from records import Records, make_bench, only_sqlite, some_requests

from app.store import facets, patience, queries
from app.store.errors import QueryError
from app.store.facets import facets_json, spread_json


@pytest.fixture(scope="module")
def records(module_url: str) -> Iterator[Records]:
    made = Records(url=module_url)
    made.play(make_bench(2, blocks=8, max_num_seqs=3, max_num_batched_tokens=16), some_requests(20), run="one")
    yield made
    made.close()


def listed(records: Records, **params: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = records.queries.requests({"limit": "1000", **params})["items"]
    return found


@pytest.mark.parametrize("params", [{}, {"q": "ttft>20ms"}, {"tenant": "a"}, {"tenant": "nobody"}, {"run": "one"}])
def test_facets_count_the_rows_of_the_list_without_their_own_filter(records: Records, params: dict[str, str]) -> None:
    for facet in records.queries.ask(facets_json, params)["facets"]:
        others = {name: value for name, value in params.items() if name in ("run", "q") or name != facet["field"]}
        counted = Counter(row[facet["field"]] for row in listed(records, **others) if row[facet["field"]] is not None)
        assert {each["value"]: each["count"] for each in facet["values"]} == counted and not facet["timed_out"]


def test_a_facet_has_the_most_frequent_values_and_says_that_there_are_more(records: Records, monkeypatch: Any) -> None:
    monkeypatch.setattr(facets, "MOST", 1)
    found = {facet["field"]: facet for facet in records.queries.ask(facets_json, {})["facets"]}
    assert found["tenant"]["more"] and found["tenant"]["values"] == [{"value": "a", "count": 10}] and not found["run"]["more"]


@pytest.mark.parametrize(
    "params", [{}, {"q": "tenant:a"}, {"q": "run:one"}, {"measure": "e2e_ms"}, {"measure": "prompt_tokens", "bins": "3"}]
)
def test_the_spread_is_numpys_of_the_rows_of_the_list(records: Records, params: dict[str, str]) -> None:
    spread = records.queries.ask(spread_json, params)
    rows = listed(records, **{name: value for name, value in params.items() if name == "q"})
    values = [row[spread["measure"]] for row in rows if row[spread["measure"]] is not None]
    for q in (50, 90, 95, 99):
        assert spread["percentiles"][f"p{q}"] == pytest.approx(np.percentile(values, q))
    assert spread["percentiles"]["n"] == len(values) and "p99" in spread["percentiles"]["few"]
    edges, counts = spread["histogram"]["edges"], spread["histogram"]["counts"]
    inner = [sum(low <= value < high for value in values) for low, high in pairwise(edges)]
    inner[-1] += sum(value == edges[-1] for value in values)
    assert counts == inner and sum(counts) == len(values) and spread["undefined"] == len(rows) - len(values)


@only_sqlite
def test_rows_that_come_too_slowly_are_an_answer_that_was_not_ready(records: Records) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"

    def ask(connection: Any) -> Any:
        return patience.within(connection, 0.02, lambda: connection.exec_driver_sql(endless).cursor.fetchall())

    assert records.queries.ask(ask) is None, "the first row is there at once, the last one never"


def test_the_spread_of_nothing_and_of_one(records: Records) -> None:
    nothing = records.queries.ask(spread_json, {"tenant": "nobody"})
    assert nothing["percentiles"]["p95"] is None and nothing["histogram"]["counts"] == []
    one = records.queries.ask(spread_json, {"text": "r13"})
    assert one["percentiles"]["p50"] == one["percentiles"]["p99"] and one["percentiles"]["few"] == ["p50", "p90", "p95", "p99"]
    assert one["histogram"]["counts"] == [1]
    with pytest.raises(QueryError, match="measure must be one of"):
        records.queries.ask(spread_json, {"measure": "priority"})


def test_what_is_not_ready_in_time_is_said_so_and_never_guessed(records: Records, monkeypatch: Any) -> None:
    monkeypatch.setattr(patience, "_OPERATIONS", 1)
    monkeypatch.setattr(facets, "ONE_S", -1.0)
    assert all(each["timed_out"] and each["values"] is None for each in records.queries.ask(facets_json, {})["facets"])
    monkeypatch.setattr(facets, "SPREAD_S", -1.0)
    spread = records.queries.ask(spread_json, {})
    assert spread["timed_out"] and spread["percentiles"] is None and spread["histogram"] is None
    monkeypatch.setattr(queries, "COUNT_S", -1.0)
    page = records.queries.requests({"limit": "5"})
    assert (page["total"], page["total_exact"]) == (5, False) and len(page["items"]) == 5
    monkeypatch.undo()
    assert records.queries.requests({"limit": "5"})["total"] == 20, "the bound went with its question"
