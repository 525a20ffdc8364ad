"""Many rows at once: dicts into statements. Knows the tables' columns, no event and no transaction.

SQLAlchemy's way with dicts costs more than SQLite itself does. So on SQLite a statement's text is made once for a table
and its columns, and the rows go to the driver as tuples, some dozens in one statement: the driver lets go of the interpreter
for each statement and must win it back from the other threads. A server gets tuples too, and dicts through Core.
Invariant: what is written is what Core would write: JSON as text, None as NULL. All rows of one call have equal keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from operator import itemgetter
from typing import Any

import orjson
from sqlalchemy import JSON, Boolean, Connection, Table, bindparam
from sqlalchemy import insert as plain_insert
from sqlalchemy import update as plain_update
from sqlalchemy.dialects import postgresql

Row = Mapping[str, Any]
PARAMETERS = 256  # of one statement
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
        return _insert_by_core(connection, table, [dict(row) for row in rows], ignoring)
    made = _insertion(table, tuple(rows[0]), ignoring)
    return connection.exec_driver_sql(made.sql, made.parameters(rows)).rowcount


def insert_tuples(
    connection: Connection, table: Table, names: tuple[str, ...], rows: list[tuple[Any, ...]], *, ignoring: bool = True
) -> int:
    """The same from tuples by `names`: plain columns, then those of JSON as text."""
    if not rows:
        return 0
    if connection.dialect.name == "sqlite":
        return _insert_together(connection, table, names, rows, ignoring)
    return connection.exec_driver_sql(_server_insertion(table, names, ignoring), rows).rowcount


def _insert_by_core(connection: Connection, table: Table, rows: list[dict[str, Any]], ignoring: bool) -> int:
    if not ignoring:
        connection.execute(plain_insert(table), rows)
        return len(rows)
    statement = postgresql.insert(table).on_conflict_do_nothing().returning(*table.primary_key.columns)
    return len(connection.execute(statement, rows).all())  # not every driver counts the rows of several executions


def _insert_together(
    connection: Connection, table: Table, names: tuple[str, ...], rows: list[tuple[Any, ...]], ignoring: bool
) -> int:
    together = max(1, PARAMETERS // len(names))
    odd = len(rows) % together
    several = [tuple(chain.from_iterable(rows[at : at + together])) for at in range(odd, len(rows), together)]
    inserted = 0
    for count, given in ((1, rows[:odd]), (together, several)):
        if given:
            inserted += connection.exec_driver_sql(_insertion(table, names, ignoring, count).sql, given).rowcount
    return inserted


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


def update_tuples(connection: Connection, table: Table, names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """The same from tuples by `names`, the last of which is `id`: that of the row meant. No column of JSON."""
    if not rows:
        return
    assert names[-1] == "id"
    if connection.dialect.name != "sqlite":
        connection.exec_driver_sql(_change(table, names[:-1]).sql.replace("?", "%s"), rows)
        return
    connection.exec_driver_sql(_change(table, names[:-1]).sql, rows)


@cache
def _server_insertion(table: Table, names: tuple[str, ...], ignoring: bool) -> str:
    """For a server's driver, which sends the rows of one call together. Truth may be told by a number there too."""
    marks = ", ".join("%s::int::boolean" if isinstance(table.c[name].type, Boolean) else "%s" for name in names)
    conflict = " ON CONFLICT DO NOTHING" if ignoring else ""
    return f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({marks}){conflict}"


@cache
def _insertion(table: Table, names: tuple[str, ...], ignoring: bool, count: int = 1) -> Statement:
    """For `count` rows at a time."""
    plain, json = _split(table, names)
    columns, row = ", ".join(plain + json), f"({', '.join('?' * len(names))})"
    conflict = " ON CONFLICT DO NOTHING" if ignoring else ""
    sql = f"INSERT INTO {table.name} ({columns}) VALUES {', '.join([row] * count)}{conflict}"
    return Statement(sql, _getter(plain), json)


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
