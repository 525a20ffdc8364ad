"""Pages from kept columns are those of one sort: every key, both directions, ties, filters, and whatever came or went since."""

from __future__ import annotations

from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from records import Records
from sqlalchemy import delete, insert, select, update

from app.store import column_pages, keyset, run_columns
from app.store.errors import QueryError
from app.store.filters import SIMULATED, filters, order
from app.store.models import requests, runs
from app.store.models import run_columns as kept_columns
from app.store.runs import remove

KEPT = {"tenant": "t", "kind": "k", "state": "finished", "received_at": 0, "received_wall": 0, "stream": False, "sequences": 1}
RUNS = ("run_a", "run_b", "run_c", "run_simulated")
SORTS = (*run_columns.KEYS, "id")
of_runs = st.sampled_from([None, *RUNS])
values = st.one_of(st.none(), st.sampled_from([0, 1, 300]), st.integers(-(2**31), 2**31 - 1))
rows_of = st.lists(st.tuples(of_runs, values, st.sampled_from("tu"), st.booleans()), max_size=40)


def row(n: int, run: str | None, key: str = "tpot_ms", value: Any = 0, tenant: str = "t") -> dict[str, Any]:
    """A request that has ended; a key that cannot be undefined is 0 instead."""
    made = KEPT | {"id": f"r{n:02}", "run": run, "priority": 0, "tenant": tenant}
    made |= {} if key == "id" else {key: 0 if key == "priority" and value is None else value}
    return made | {"endpoint": SIMULATED if run == "run_simulated" else "/v1/completions"}


def fill(records: Records, made: list[dict[str, Any]]) -> None:
    """These rows and no others; nothing is kept."""

    def work(connection: Any) -> None:
        for table in (requests, kept_columns, runs):
            connection.execute(delete(table))
        shared = {"status": "finished", "created_wall": 0, "name": "named"}
        connection.execute(insert(runs), [shared | {"id": run} for run in RUNS])

    records.job(work)
    add(records, made)


def add(records: Records, made: list[dict[str, Any]]) -> None:
    if made:
        records.job(lambda connection: connection.execute(insert(requests), made))


def keep(records: Records, run: str, made: list[dict[str, Any]]) -> None:
    """The columns of a run, as at its end."""
    known = dict.fromkeys(run_columns.KEYS)
    mine = sorted((known | each for each in made if each["run"] == run), key=itemgetter("id"))
    records.job(partial(run_columns.keep, run_id=run, parts=run_columns.pack(mine)))


def remove_partly(records: Records, run: str, turns: int) -> set[str]:
    """So many slices of a deletion that takes one piece at a time; whose rows went."""

    def work(connection: Any) -> set[str]:
        before = set(connection.execute(select(requests.c.id)).scalars())
        for _ in islice(remove(connection, run), turns):
            pass
        return before - set(connection.execute(select(requests.c.id)).scalars())

    gone: set[str] = records.job(work)
    return gone


def sorted_ids(made: list[dict[str, Any]], key: str, down: bool) -> list[str]:
    defined = [each for each in made if each[key] is not None]
    found = sorted(defined, key=lambda each: (each[key], each["id"]), reverse=down)
    found += sorted((each for each in made if each[key] is None), key=itemgetter("id"), reverse=down)
    return [each["id"] for each in found]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of three, opened one by one at first, deleted in pieces of two; no scan because many rows have no columns."""
    monkeypatch.setattr(run_columns, "PART", 3)
    monkeypatch.setattr("app.store.sorted_columns._OPENED", 1)
    monkeypatch.setattr("app.store.runs._PIECE", 2)
    for each in ("runs", "run_columns"):
        monkeypatch.setattr(f"app.store.{each}._TURN_S", -1)
    monkeypatch.setattr(column_pages, "_SCAN", 0)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows_of,
    st.sets(st.sampled_from(RUNS)),
    st.integers(0, 12),
    st.integers(1, 9),
    st.sampled_from(SORTS),
    st.booleans(),
    st.sampled_from([{}, {"tenant": "t"}, {"run": "run_b"}, {"run": "run_simulated", "tenant": "u"}, {"run": "named"}]),
)
def test_pages_are_those_of_one_sort_whatever_is_kept_came_late_or_is_half_deleted(
    records: Records, made: list[Any], kept: set[str], turns: int, size: int, key: str, down: bool, params: dict[str, str]
) -> None:
    rows = [row(n, run, key, value, tenant) for n, (run, value, tenant, _) in enumerate(made)]
    late = [each for each, (*_, later) in zip(rows, made, strict=True) if later]
    early = [each for each in rows if each not in late]
    fill(records, early)
    for run in kept:
        keep(records, run, early)
    add(records, late)
    ids = remove_partly(records, "run_a", turns)
    mine = [each for each in rows if each["id"] not in ids and each["tenant"] == params.get("tenant", each["tenant"])]
    asked = {None: [None, *RUNS[:3]], "named": RUNS}.get(params.get("run"), [params.get("run")])
    mine = [each for each in mine if each["run"] in asked]
    assert records.page_by_page(f"-{key}" if down else key, size, params) == sorted_ids(mine, key, down)


@pytest.mark.parametrize("params", [{}, {"run": "run_a"}, {"tenant": "t"}])
def test_a_page_is_read_from_the_columns_and_not_from_the_rows(records: Records, params: dict[str, str]) -> None:
    made = [row(n, "run_a", "tpot_ms", n % 7) for n in range(30)]
    fill(records, made)
    keep(records, "run_a", made)
    records.job(lambda connection: connection.execute(update(requests).values(tpot_ms=0.5)))
    assert records.page_by_page("-tpot_ms", 30, params) == sorted_ids(made, "tpot_ms", True), "the rows themselves were sorted"


def test_where_few_pass_the_rest_is_scanned(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [row(n, "run_a", "tpot_ms", n % 5, "u" if n % 13 == 0 else "t") for n in range(60)]
    fill(records, made)
    keep(records, "run_a", made)
    sort, asked = order("-tpot_ms"), filters({"tenant": "u"})
    assert len(records.queries.ask(column_pages.first, asked, sort, 4, None) or ()) == 4
    monkeypatch.setattr(column_pages, "MOST", 10)
    assert records.queries.ask(column_pages.first, asked, sort, 4, None) is None
    assert records.page_by_page("-tpot_ms", 3, {"tenant": "u"}) == sorted_ids(made[::13], "tpot_ms", True)


def test_where_many_rows_have_no_columns_all_are_scanned(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [row(n, "run_a" if n < 8 else None) for n in range(12)]
    fill(records, made)
    keep(records, "run_a", made)
    ask = partial(records.queries.ask, column_pages.first, filters({}), order("tpot_ms"), 12, None)
    monkeypatch.setattr(column_pages, "_SCAN", 3)
    assert ask() == sorted_ids(made, "tpot_ms", False), "four of twelve are not more than one in three"
    add(records, [row(12, "run_b")])
    assert ask() is None


def test_a_request_that_came_after_its_runs_end_is_on_the_page(records: Records) -> None:
    made = [row(n, "run_a", "tpot_ms", n) for n in range(7)]
    fill(records, made)
    keep(records, "run_a", made)
    add(records, [row(50, "run_a", "tpot_ms", 99)])
    for params in ({}, {"run": "run_a"}):
        assert records.page_by_page("-tpot_ms", 3, params)[:2] == ["r50", "r06"]


def test_a_cursor_whose_key_is_of_another_kind_is_refused(records: Records) -> None:
    made = [row(n, "run_a") for n in range(4)]
    fill(records, made)
    keep(records, "run_a", made)
    for sort, key in (("tpot_ms", "text"), ("id", 5)):
        asked, by = filters({"run": "run_a"}), order(sort)
        cursor = keyset._encode(keyset.Place(key, "r01"), keyset.fingerprint(asked, by))
        with pytest.raises(QueryError, match="not one of ours"):
            records.queries.ask(keyset.page, asked, by, 2, cursor)


@pytest.mark.parametrize("down", [True, False])
def test_rows_that_share_a_key_follow_each_other_by_their_ids_within_a_part_and_beyond(records: Records, down: bool) -> None:
    made = [row(n, "run_a" if n % 2 else "run_b", "priority", 0) for n in range(16)]
    fill(records, made)
    for run in ("run_a", "run_b"):
        keep(records, run, made)
    assert records.page_by_page("-priority" if down else "priority", 1, {}) == sorted_ids(made, "priority", down)


def test_late_requests_are_seen_in_each_slice_of_a_deletion_of_as_many_of_another_run(records: Records) -> None:
    made = [row(n, "run_a" if n < 4 else "run_b", value=n) for n in range(8)]
    late = [row(20 + n, "run_b", value=100 + n) for n in range(2)]
    seen = set[int]()
    for turns in range(1, 40):
        fill(records, made)
        for run in ("run_a", "run_b"):
            keep(records, run, made)
        add(records, late)
        gone = remove_partly(records, "run_a", turns)
        left = [each for each in made if each["id"] not in gone]
        assert records.page_by_page("-tpot_ms", 3, {}) == sorted_ids(left + late, "tpot_ms", down=True)
        seen.add(len(gone))
    assert seen == {0, 2, 4}
