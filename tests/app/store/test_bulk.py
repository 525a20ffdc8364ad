"""Rows written in bulk are the rows that SQLAlchemy itself would write; a second key is left out and counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, create_engine, insert, select

from app.store import bulk
from app.store.models import metadata, request_events, requests

EVENT = {"boot": 1, "request_id": "a", "sequence_id": "a", "kind": "FirstToken", "at": 5, "terminal": False}
EVENTS = [
    EVENT | {"seq": 1, "data": {"number": 7, "names": ["é", None], "by": {1: 2.5}}},
    EVENT | {"seq": 2, "data": None},
    EVENT | {"seq": 3, "data": {}, "terminal": True, "sequence_id": "b"},
]


@pytest.fixture
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://", json_serializer=lambda value: bulk.dump(value))
    metadata.create_all(engine)
    with engine.connect() as opened, opened.begin():
        yield opened
    engine.dispose()


def raw(connection: Connection) -> list[tuple[object, ...]]:
    """The rows as they lie in the file."""
    return [tuple(row) for row in connection.exec_driver_sql("SELECT *, typeof(data) FROM request_events ORDER BY seq")]


def test_bulk_writes_what_core_writes(connection: Connection) -> None:
    connection.execute(insert(request_events), EVENTS)
    by_core = raw(connection)
    connection.execute(request_events.delete())
    assert bulk.insert(connection, request_events, EVENTS) == 3
    assert raw(connection) == by_core


def test_a_second_key_and_a_second_terminal_event_are_left_out_and_counted(connection: Connection) -> None:
    bulk.insert(connection, request_events, EVENTS)
    again = [*EVENTS, EVENTS[2] | {"seq": 4}, EVENT | {"seq": 5, "data": None}]
    assert bulk.insert(connection, request_events, again, ignoring=True) == 1
    assert [row[1] for row in raw(connection)] == [1, 2, 3, 5]


def test_an_update_sets_the_named_columns_of_its_row_alone(connection: Connection) -> None:
    blank = {"endpoint": "/v1", "tenant": "t", "kind": "k", "priority": 0, "state": "waiting", "received_at": 1}
    rows = [blank | {"id": name, "received_wall": 2, "stream": False, "sequences": 1} for name in ("a", "b")]
    assert bulk.insert(connection, requests, rows) == 2
    bulk.update(connection, requests, [{bulk.KEY: "b", "state": "running", "ttft_ms": None, "scheduled_at": 9}])
    table = requests.c
    found = connection.execute(select(table.id, table.state, table.scheduled_at).order_by(table.id)).all()
    assert [tuple(row) for row in found] == [("a", "waiting", None), ("b", "running", 9)]


def test_many_tuples_are_all_written_in_their_order_and_second_keys_are_counted_across_statements(
    connection: Connection,
) -> None:
    names = ("boot", "seq", "request_id", "sequence_id", "kind", "at", "terminal", "data")
    rows = [(1, n, "a", "a", "FirstToken", n, 0, None if n % 3 else f'{{"number":{n}}}') for n in range(101)]
    again = [rows[5], *[(1, n, *rows[0][2:]) for n in range(101, 180)], rows[100]]
    assert bulk.insert_tuples(connection, request_events, names, rows) == 101
    assert bulk.insert_tuples(connection, request_events, names, again) == 79
    assert [row[1] for row in raw(connection)] == list(range(180))
    assert [row.data for row in connection.execute(select(request_events.c.data).limit(4))] == [
        {"number": 0},
        None,
        None,
        {"number": 3},
    ]


def test_an_update_by_tuples_sets_absolute_values(connection: Connection) -> None:
    blank = {"endpoint": "/v1", "tenant": "t", "kind": "k", "priority": 0, "state": "waiting", "received_at": 1}
    bulk.insert(
        connection, requests, [blank | {"id": name, "received_wall": 2, "stream": False, "sequences": 1} for name in "abc"]
    )
    bulk.update_tuples(connection, requests, ("state", "ttft_ms", "id"), [("running", 1.5, "b"), ("finished", None, "c")])
    table = requests.c
    found = connection.execute(select(table.id, table.state, table.ttft_ms).order_by(table.id)).all()
    assert [tuple(row) for row in found] == [("a", "waiting", None), ("b", "running", 1.5), ("c", "finished", None)]


def test_nothing_to_write_is_nothing_written(connection: Connection) -> None:
    assert bulk.insert(connection, request_events, []) == 0
    bulk.update(connection, requests, [])
    assert raw(connection) == []
