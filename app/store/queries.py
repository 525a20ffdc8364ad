"""The face for readers: questions in, plain JSON-ready values out. Knows no HTTP and never writes.

`Queries.ask(function, *args)` is the whole mechanism: function(connection, *args) in a read-only transaction, which sees
one state of the database. The named methods are what commands and pages ask most. Calls block on the database: in the
web process they run on a native thread, at most three at a time; connections are kept for the next question.
Invariant: every question raises QueryError naming the parameter at fault, and only reads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from app.store import comparison, console, database, keyset, run_summary, runs
from app.store.detail import detail_json
from app.store.errors import ConsoleBusy
from app.store.filters import MAX_PAGE, filters, limit, order
from app.store.refusal import unread
from app.store.report_figures import Slo
from app.store.request_json import request_json
from app.store.segments import segments_json
from app.store.step_rows import steps_json
from app.store.summary import summary_json

_PAGING = ("sort", "limit", "cursor")
_KEPT = 3
COUNT_S = 0.1  # for counting; a page waits for it
P = ParamSpec("P")
T = TypeVar("T")


def requests_json(connection: Connection, params: Mapping[str, str]) -> dict[str, Any]:
    """GET /api/requests: {items, next_cursor, total, total_exact, asked}. What was not counted in time is at least the page."""
    asked, sort, size = filters(params, also=_PAGING), order(params.get("sort")), limit(params.get("limit"))
    rows, after = keyset.page(connection, asked, sort, size, params.get("cursor") or None)
    total, exact = keyset.count_in(connection, asked, COUNT_S, len(rows))
    return {
        "items": [request_json(row) for row in rows],
        "next_cursor": after,
        "total": total,
        "total_exact": exact,
        "asked": {"q": asked.search, "params": dict(asked.given)},
    }


def export_page(
    connection: Connection, params: Mapping[str, str], cursor: str | None
) -> tuple[list[dict[str, Any]], str | None]:
    """The next page of an export: items, and the cursor of the one after it."""
    asked, sort = filters(params, also=_PAGING), order(params.get("sort"))
    rows, after = keyset.page(connection, asked, sort, MAX_PAGE, cursor)
    return [request_json(row) for row in rows], after


class Queries:
    """See the module. One for the process; safe to call from several threads."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._engine = database.reading(url)
        self._consoles = deque(range(console.AT_ONCE))
        self._idle: deque[Connection] = deque()

    def ask(self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """function(connection, *args), rolled back afterwards. A connection on which it failed is not kept.

        A server may have been away since the last question: what was kept is thrown away, and it is asked once more. Raises
        StoreFailed where the database cannot be reached.
        """
        try:
            connection, kept = self._idle.pop(), True
        except IndexError:
            connection, kept = self._connect(), False
        try:
            return self._asked(connection, function, *args, **kwargs)
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            self.close()
            if not kept:
                raise unread(error) from error
        return self.ask(function, *args, **kwargs)

    def _connect(self) -> Connection:
        try:
            return self._engine.connect()
        except DBAPIError as error:
            raise unread(error) from error

    def _asked(
        self, connection: Connection, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        try:
            with connection.begin() as transaction:
                answer = function(connection, *args, **kwargs)
                transaction.rollback()
        except BaseException:
            connection.close()
            raise
        if len(self._idle) < _KEPT:
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def requests(self, params: Mapping[str, str]) -> dict[str, Any]:
        """GET /api/requests: {items, next_cursor, total, total_exact}."""
        return self.ask(requests_json, params)

    def export_page(self, params: Mapping[str, str], cursor: str | None) -> tuple[list[dict[str, Any]], str | None]:
        """The next page of an export."""
        return self.ask(export_page, params, cursor)

    def sql(self, statement: str) -> dict[str, Any]:
        """POST /api/sql: {columns, rows, truncated, elapsed_ms}; raises ConsoleBusy while others ask."""
        try:
            turn = self._consoles.pop()
        except IndexError:
            raise ConsoleBusy(f"{console.AT_ONCE} SQL statements are running: try again in a second") from None
        try:
            return console.answer(self._url, statement)
        finally:
            self._consoles.append(turn)

    def request(self, request_id: str) -> dict[str, Any] | None:
        """GET /api/requests/{id}; None when there is no such request."""
        return self.ask(detail_json, request_id)

    def summary(self, params: Mapping[str, str]) -> dict[str, Any]:
        """GET /api/requests/summary."""
        return self.ask(summary_json, params)

    def steps(self, params: Mapping[str, str]) -> dict[str, Any]:
        """GET /api/steps."""
        return self.ask(steps_json, params)

    def segments(self, params: Mapping[str, str]) -> dict[str, Any]:
        """GET /api/segments."""
        return self.ask(segments_json, params)

    def runs(self, size: int = 100, before: str | None = None) -> dict[str, Any]:
        """GET /api/runs: newest first."""
        return self.ask(runs.listing, size, before)

    def run(self, run_id: str) -> dict[str, Any]:
        """GET /api/runs/{id}; raises QueryError("run") when there is none."""
        return self.ask(runs.get, run_id)

    def report(self, run_id: str, slo: Slo | None = None) -> dict[str, Any]:
        """GET /api/runs/{id}/report."""
        return self.ask(run_summary.report, run_id, slo)

    def compare(self, run_ids: list[str], slo: Slo | None = None) -> dict[str, Any]:
        """GET /api/compare."""
        return self.ask(comparison.compare, run_ids, slo)

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()
