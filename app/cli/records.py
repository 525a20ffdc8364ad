"""Where history comes from: the server that holds the data directory, or the database itself. One interface, two sources.

Knows the routes and the queries, no table. Invariant: the database is opened for reading only while no live server holds
the data directory, and for writing only under the directory's lock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Protocol
from urllib.parse import quote

from app.cli.failures import USAGE, CommandError
from app.cli.server import Server, named_or_holding
from app.cli.terminal import ProgressLine, say
from app.settings import ServerSettings
from app.store import migrate
from app.store.errors import QueryError
from app.store.purged import absent
from app.store.queries import Queries
from app.store.shapes import shapes_json

POLL_S = 1.0
PAGE = 1000


class Records(Protocol):
    """What the commands of history ask. `served`: by a server that is there, so that what goes on in them really does."""

    served: bool

    def runs(self, limit: int) -> dict[str, Any]: ...
    def run(self, run: str) -> dict[str, Any]: ...
    def shapes(self, run: str) -> dict[str, Any]: ...
    def report(self, run: str) -> dict[str, Any]: ...
    def compare(self, runs: list[str]) -> dict[str, Any]: ...
    def requests(self, filters: Mapping[str, str]) -> dict[str, Any]: ...
    def request(self, request_id: str) -> dict[str, Any]: ...
    def sql(self, statement: str) -> dict[str, Any]: ...


class ServerRecords:
    """Over HTTP."""

    served = True

    def __init__(self, server: Server) -> None:
        self._server = server

    def runs(self, limit: int) -> dict[str, Any]:
        return _object(self._server.get("/api/runs", {"limit": limit}))

    def run(self, run: str) -> dict[str, Any]:
        return _object(self._server.get(f"/api/runs/{quote(run, safe='')}"))

    def shapes(self, run: str) -> dict[str, Any]:
        return _object(self._server.get(f"/api/runs/{quote(run, safe='')}/shapes"))

    def report(self, run: str) -> dict[str, Any]:
        return self._made(f"/api/runs/{quote(run, safe='')}/report", {})

    def compare(self, runs: list[str]) -> dict[str, Any]:
        return self._made("/api/compare", {"runs": ",".join(runs), "wait": 0})

    def _made(self, path: str, query: Mapping[str, Any]) -> dict[str, Any]:
        """Waits for the figures of long runs, and says how far they are."""
        line, found = ProgressLine(), _object(self._server.get(path, query))
        try:
            while "computing" in found:
                line.show(*progress(found["computing"]))
                time.sleep(POLL_S)
                found = _object(self._server.get(path, query))
        except KeyboardInterrupt:
            line.end()
            say("the server goes on making the figures and keeps them: ask again later")
            raise
        line.end()
        return found

    def requests(self, filters: Mapping[str, str]) -> dict[str, Any]:
        return _object(self._server.get("/api/requests", filters))

    def request(self, request_id: str) -> dict[str, Any]:
        return _object(self._server.get(f"/api/requests/{quote(request_id, safe='')}"))

    def sql(self, statement: str) -> dict[str, Any]:
        return _object(self._server.post("/api/sql", {"sql": statement}))


class StoredRecords:
    """From the database."""

    served = False

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def runs(self, limit: int) -> dict[str, Any]:
        return self._queries.runs(limit)

    def run(self, run: str) -> dict[str, Any]:
        return self._queries.run(run)

    def shapes(self, run: str) -> dict[str, Any]:
        return self._queries.ask(shapes_json, run)

    def report(self, run: str) -> dict[str, Any]:
        return self._queries.report(run)

    def compare(self, runs: list[str]) -> dict[str, Any]:
        return self._queries.compare(runs)

    def requests(self, filters: Mapping[str, str]) -> dict[str, Any]:
        return self._queries.requests(filters)

    def request(self, request_id: str) -> dict[str, Any]:
        found = self._queries.request(request_id)
        if found is None:
            raise QueryError(self._queries.ask(absent, "request", request_id), "id")
        return found

    def sql(self, statement: str) -> dict[str, Any]:
        return self._queries.sql(statement)


def records(settings: ServerSettings, url: str | None = None) -> Records:
    """The source for these settings; `url` names a server outright."""
    server = named_or_holding(url, settings.directory)
    return ServerRecords(server) if server else StoredRecords(Queries(existing_database(settings)))


def progress(far: Mapping[str, Any]) -> tuple[float | None, str]:
    """(share of the rows that are read, what to say) of figures that are being made; a comparison's say of which run."""
    which = f" of run {far['run']} ({far['ready'] + 1} of {far['runs']})" if "runs" in far else ""
    read = f"{far['rows']:,} of {far['of']:,} rows so far"
    done = min(far["rows"] / far["of"], 1.0) if far["of"] else None
    return done, f"making the figures{which}: {far['what'].replace('_', ' ')}, {read}"


def all_requests(source: Records, filters: Mapping[str, str], most: int | None) -> Iterator[dict[str, Any]]:
    """Requests page by page, `most` of them or all."""
    left, cursor = most, None
    while left is None or left > 0:
        size = PAGE if left is None else min(PAGE, left)
        page = source.requests({**filters, "limit": str(size)} | ({"cursor": cursor} if cursor else {}))
        yield from page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return
        left = None if left is None else left - len(page["items"])


def existing_database(settings: ServerSettings) -> str:
    """Where the records are, of a database that is there and of this version; raises CommandError saying what to do."""
    url = settings.records_url
    if settings.records_file is not None and not settings.records_file.exists():
        raise CommandError(
            f"{settings.directory} holds no records yet: `batchscope serve` makes them (or name another --data-dir)"
        )
    revision, wanted = migrate.current(url), migrate.head()
    if revision != wanted:
        raise CommandError(
            f"the database is at revision {revision or 'none'}, this version wants {wanted}: `batchscope db upgrade`"
        )
    return url


def _object(answer: Any) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise CommandError(f"the server's answer is not what was expected: {str(answer)[:80]!r}", USAGE - 1)
    return answer
