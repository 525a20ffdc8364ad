"""Lines of a load generator: checked by name, stored once."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from records import Records

from app.store import client_rows
from app.store.errors import QueryError
from app.store.packing import unpack_gaps

LINE: dict[str, Any] = {
    "id": "run-1", "n": 1, "tenant": "a", "kind": "batch", "due_ms": 0.0, "sent_ms": 1.5, "first_ms": 20, "last_ms": 30.25,
    "end_ms": 31.0, "status": "ok", "http": 200, "error": None, "prompt_tokens": 5, "output_tokens": 3, "estimated": False,
    "gaps_ms": [5.125, 5.125], "server_id": "req_x", "attempts": 1,
}  # fmt: skip


def test_a_line_becomes_a_row_and_comes_back(records: Records) -> None:
    assert records.job(partial(client_rows.add, run="r", rows=[client_rows.row("r", LINE)])) == {"accepted": 1, "duplicates": 0}
    found = records.sql("SELECT run, client_request_id, sent_ms, last_ms, status, http, gaps, server_id FROM client_requests")
    assert found[0][:6] == ("r", "run-1", 1.5, 30.25, "ok", 200) and found[0][7] == "req_x"
    assert unpack_gaps(found[0][6]) == [5.125, 5.125]


def test_a_repeated_line_changes_nothing_and_is_counted(records: Records) -> None:
    add = partial(records.job)
    first, second = client_rows.row("r", LINE), client_rows.row("r", LINE | {"id": "run-2"})
    assert add(partial(client_rows.add, run="r", rows=[first, first])) == {"accepted": 1, "duplicates": 1}
    again = client_rows.row("r", LINE | {"status": "timeout"})
    assert add(partial(client_rows.add, run="r", rows=[again, second])) == {"accepted": 1, "duplicates": 1}
    assert records.sql("SELECT client_request_id, status FROM client_requests ORDER BY 1") == [("run-1", "ok"), ("run-2", "ok")]


def test_a_minimal_line_is_enough() -> None:
    row = client_rows.row("r", {"id": "x", "status": "incomplete"})
    assert row["sent_ms"] is None and row["gaps"] is None and row["estimated"] is False


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", ""), ("id", 5), ("id", "x" * 201), ("status", "fine"), ("sent_ms", "soon"), ("sent_ms", float("nan")), ("n", -1),
        ("http", 1.5), ("output_tokens", True), ("tenant", 3), ("gaps_ms", "x"), ("gaps_ms", [-1]), ("gaps_ms", ["x"]),
        ("gaps_ms", [1e308]),
    ],
)  # fmt: skip
def test_a_bad_field_is_named(field: str, value: object) -> None:
    with pytest.raises(QueryError) as caught:
        client_rows.row("r", LINE | {field: value})
    assert caught.value.param == field


def test_text_that_no_database_takes_is_made_storable(records: Records) -> None:
    row = client_rows.row("r", LINE | {"error": "\ud800\0 " + "x" * 5000})
    records.job(partial(client_rows.add, run="r", rows=[row]))
    assert records.sql("SELECT error FROM client_requests")[0][0].startswith("?\ufffd x")
