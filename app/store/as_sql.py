"""A question about requests as the text of an SQL statement, with its values in it. Knows no HTTP.

Invariant: run by the same database, the statement gives exactly the ids of the filtered set, in the order of the list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select

from app.store.filters import filters, order
from app.store.models import requests

_PAGING = ("sort", "limit", "cursor")
SHOWN = (
    "id", "received_wall", "run", "tenant", "kind", "policy", "state", "finish", "prompt_tokens", "output_tokens", "queue_ms",
    "ttft_ms", "tpot_ms", "e2e_ms", "top_wait", "preemptions",
)  # fmt: skip


def as_sql_json(connection: Connection, params: Mapping[str, str]) -> dict[str, Any]:
    """GET /api/requests/sql: {sql, dialect}."""
    asked, sort = filters(params, also=_PAGING), order(params.get("sort"))
    column, key = sort.column, requests.c.id
    ordered = (column.is_(None), column.desc(), key.desc()) if sort.descending else (column.is_(None), column, key)
    question = select(*(requests.c[name] for name in SHOWN)).where(*asked.conditions).order_by(*ordered)
    made: Any = type(connection.dialect)
    dialect = made(paramstyle="named")  # else a % in a value would be doubled for the driver
    text = str(question.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
    return {"sql": text.replace(" \nFROM", "\nFROM", 1), "dialect": connection.dialect.name}
