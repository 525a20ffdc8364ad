"""POST /api/sql: a statement of the reader's own over the records. Translates HTTP to one question, no more.

Its bounds and its allow-list are the console's (app/store/console.py): what it shows, any key with `read` may read.
Invariant: what the statement does wrong is a 400 that quotes SQLite; more statements at once than allowed are a 429.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from flask import Blueprint, Response, current_app, request

from app.api import fields
from app.api.answers import json_answer
from app.api.decode import decode_object
from app.api.errors import ApiError, Problem, bad
from app.store import console
from app.store.errors import ConsoleBusy, QueryError
from app.store.export import MEDIA, table_csv
from app.store.queries import Queries

sql = Blueprint("sql", __name__)

LONGEST = 20_000


class Reader(Protocol):
    """The part of the running server that this blueprint needs."""

    @property
    def queries(self) -> Queries: ...

    @property
    def run_native(self) -> Callable[..., Any]: ...


@sql.post("/api/sql")
def ask_sql() -> Response:
    """The rows of one SELECT: {columns, rows, truncated, elapsed_ms}; CSV with {"format": "csv"}."""
    body = decode_object(request.get_data())
    fields.refuse_unknown(body, frozenset({"sql", "format"}))
    statement, form = fields.string(body, "sql", LONGEST), fields.string(body, "format", 10) or "json"
    if form not in ("json", "csv"):
        raise bad(f"format must be json or csv, not {form!r}", "format")
    reader = cast(Reader, current_app.extensions["batchscope"])
    try:
        answer = reader.run_native(reader.queries.sql, statement or "")
    except QueryError as error:
        raise bad(error.message, error.param) from error
    except ConsoleBusy as error:
        raise ApiError(Problem(429, error.message, None, "console_busy", {"Retry-After": "1"})) from error
    if form == "csv":
        return Response(table_csv(answer["columns"], answer["rows"]), content_type=MEDIA["csv"])
    return json_answer(answer)


@sql.get("/api/sql/schema")
def schema() -> Response:
    """The tables and columns that a statement may read, and its bounds."""
    bounds = {"rows": console.MAX_ROWS, "bytes": console.MAX_BYTES, "seconds": console.LIMIT_S}
    return json_answer({"tables": console.SCHEMA, "bounds": bounds})
