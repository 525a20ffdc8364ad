"""Many rows at once: dicts into statements. Knows the tables' columns, no event and no transaction.

SQLAlchemy's way with dicts costs more than SQLite itself does. So on SQLite a statement's text is made once for a table
and its columns, and the rows go to the driver as tuples; any other database gets the same through Core.
Invariant: what is written is what Core would write: JSON as text, None as NULL. All rows of one call have equal keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import Any

import orjson
from sqlalchemy import JSON, Connection, Table, bindparam
from sqlalchemy import insert as plain_insert
from sqlalchemy import update as plain_update
from sqlalchemy.dialects import postgresql

Row = Mapping[str, Any]
KEY = "key"  # the parameter that holds the id of the row to update


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL and how a row becomes its parameters: plain columns first, then those of JSON."""

    sql: str
    plain: Callable[[Row], tuple[Any, ...]]
    json: tuple[str, ...]

    def parameters(self, rows: Iterable[Row]) -> list[tuple[Any, ...]]:
        """A tuple a row."""
        plain, json = self.plain, self.json
        if not json:
            return [plain(row) for row in rows]
        return [(*plain(row), *[dump(row[name]) for name in json]) for row in rows]


def insert(connection: Connection, table: Table, rows: Sequence[Row], *, ignoring: bool = False) -> int:
    """Insert; with `ignoring`, what violates a constraint is left out. Returns how many were inserted."""
    if not rows:
        return 0
    if connection.dialect.name != "sqlite":
        statement: Any = postgresql.insert(table).on_conflict_do_nothing() if ignoring else plain_insert(table)
        return connection.execute(statement, [dict(row) for row in rows]).rowcount
    made = _insertion(table, tuple(rows[0]), ignoring)
    return connection.exec_driver_sql(made.sql, made.parameters(rows)).rowcount


def insert_tuples(
    connection: Connection, table: Table, names: tuple[str, ...], rows: list[tuple[Any, ...]], *, ignoring: bool = True
) -> int:
    """The same from tuples by `names`: plain columns, then those of JSON as text."""
    if not rows:
        return 0
    made = _insertion(table, names, ignoring)
    if connection.dialect.name == "sqlite":
        return connection.exec_driver_sql(made.sql, rows).rowcount
    again = [{**dict(zip(names, row, strict=True)), **_loaded(made.json, names, row)} for row in rows]
    statement: Any = postgresql.insert(table).on_conflict_do_nothing() if ignoring else plain_insert(table)
    return connection.execute(statement, again).rowcount


def _loaded(json: Iterable[str], names: tuple[str, ...], row: tuple[Any, ...]) -> dict[str, Any]:
    """The columns of JSON as objects again, for a driver that writes their text itself."""
    texts = {name: row[names.index(name)] for name in json}
    return {name: None if text is None else orjson.loads(text) for name, text in texts.items()}


def update(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Set the columns that the rows name; KEY holds the id of the row meant."""
    if not rows:
        return
    names = tuple(name for name in rows[0] if name != KEY)
    if connection.dialect.name != "sqlite":
        values: dict[str, Any] = {name: bindparam(name) for name in names}
        connection.execute(plain_update(table).where(table.c.id == bindparam(KEY)).values(values), [dict(row) for row in rows])
        return
    made = _change(table, names)
    connection.exec_driver_sql(made.sql, made.parameters(rows))


@cache
def _insertion(table: Table, names: tuple[str, ...], ignoring: bool) -> Statement:
    plain, json = _split(table, names)
    columns, marks = ", ".join(plain + json), ", ".join("?" * len(names))
    conflict = " ON CONFLICT DO NOTHING" if ignoring else ""
    return Statement(f"INSERT INTO {table.name} ({columns}) VALUES ({marks}){conflict}", _getter(plain), json)


@cache
def _change(table: Table, names: tuple[str, ...]) -> Statement:
    assert not _split(table, names)[1], "no JSON is ever updated here"
    assignments = ", ".join(f"{name} = ?" for name in names)
    return Statement(f"UPDATE {table.name} SET {assignments} WHERE id = ?", _getter((*names, KEY)), ())


def _split(table: Table, names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(plain columns, columns of JSON)."""
    json = tuple(name for name in names if isinstance(table.c[name].type, JSON))
    return tuple(name for name in names if name not in json), json


def _getter(names: Sequence[str]) -> Callable[[Row], tuple[Any, ...]]:
    assert len(names) > 1, "itemgetter of one name gives no tuple"
    return itemgetter(*names)


def dump(value: object) -> str | None:
    """A JSON column's text."""
    return None if value is None else orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
