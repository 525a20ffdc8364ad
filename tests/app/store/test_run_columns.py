"""What is kept of a run's sort keys is exact, no wider than need be, and goes with the run."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from played_run import play_run
from records import Records
from sqlalchemy import func, select

from app.store import run_columns, run_summary, runs
from app.store.errors import QueryError
from app.store.models import run_columns as kept_columns
from app.store.run_columns import IDS, KEYS, pack


def rows(*values: Any, key: str = "tpot_ms", ids: list[str] | None = None) -> list[dict[str, Any]]:
    """A row for each value of one key; the others are 1."""
    named = ids or [f"req_{n:03}" for n in range(len(values))]
    return [dict.fromkeys(KEYS, 1) | {"id": id, key: value} for id, value in zip(named, values, strict=True)]


def columns(made: list[run_columns.Part]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for part in made:
        if part.name != IDS:
            found.setdefault(part.name, []).extend(np.frombuffer(part.data, part.form).tolist())
    return found


def kept(records: Records) -> int:
    count = select(func.count()).select_from(kept_columns)
    return int(records.queries.ask(lambda connection: connection.execute(count).scalar_one()))


@pytest.mark.parametrize(
    ("values", "form"),
    [
        ((0, 127, -5), "<i1"),
        ((128,), "<i2"),
        ((32_768,), "<i4"),
        ((2**31,), "<f8"),
        ((0.1, 3.0), "<f8"),
        ((1e300,), None),
        ((2**53,), None),
    ],
)
def test_a_column_is_as_narrow_as_its_numbers_and_holds_them_exactly(values: tuple[Any, ...], form: str | None) -> None:
    made = pack(rows(*values))
    assert [part.form for part in made if part.name == "tpot_ms"] == ([] if form is None else [form])
    assert columns(made).get("tpot_ms", []) == ([] if form is None else list(values))


def test_what_is_undefined_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    found = columns(pack(rows(3, None, key="output_tokens")))["output_tokens"]
    assert found[0] == 3 and np.isnan(found[1])


def test_a_column_that_is_not_exact_in_one_part_is_kept_in_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_columns, "PART", 2)
    made = pack(rows(1, 2, 3, 2**60, 5, key="priority"))
    assert {part.name for part in made} == {IDS, *KEYS} - {"priority"}
    assert columns(made)["tpot_ms"] == [1] * 5


@pytest.mark.parametrize(
    "ids", [["req_a"], ["a", "ab", "abc"], ["", "é", "日本"], ["req_01", "req_012", "req_1"], [f"{n:02}" for n in range(9)]]
)
def test_ids_are_found_again_by_their_places(ids: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_columns, "PART", 4)
    made = [part for part in pack(rows(*range(len(ids)), ids=ids)) if part.name == IDS]
    assert [id for part in made for id in run_columns.ids_of(part, range(part.size))] == ids
    assert [(part.first_id, part.last_id) for part in made] == [
        (ids[at], ids[min(at + 4, len(ids)) - 1]) for at in range(0, len(ids), 4)
    ]


def test_of_a_run_with_an_open_request_no_column_is_made(records: Records) -> None:
    play_run(records)
    assert [part.size for part in records.queries.ask(run_summary.compute, "one").sorted_by] == [8] * (1 + len(KEYS))
    records.sql("UPDATE requests SET state = 'running' WHERE id = 'r1'")
    assert records.queries.ask(run_summary.compute, "one").sorted_by == []


def test_columns_are_replaced_whole_and_go_with_their_run(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_columns, "PART", 2)
    monkeypatch.setattr(run_columns, "_TURN_S", 0.0)  # each part is a transaction
    play_run(records)
    for size in (7, 3):
        records.job(partial(run_columns.keep, run_id="one", parts=pack(rows(*range(size)))))
        assert kept(records) == (1 + len(KEYS)) * (size + 1) // 2
    records.job(partial(runs.remove, run_id="one"))
    assert kept(records) == 0
    with pytest.raises(QueryError, match="no run"):
        records.job(partial(run_columns.keep, run_id="one", parts=pack(rows(1))))
    assert kept(records) == 0
