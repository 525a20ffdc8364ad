"""A writer with a thread, and logs of a real scheduler to write: for tests of the records."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import postgres
import pytest
from builders import MS, Bench, make_request, make_scheduler

from app.store import database, keyset, migrate
from app.store.accepted import AcceptedRow
from app.store.filters import filters, order
from app.store.queries import Queries
from app.store.writer import Writer
from scheduler.core.events import EngineStarted, Event
from scheduler.core.request import Request

WALL = 1_790_000_000 * 10**9
WAIT_S = 20.0
BACKENDS = ("sqlite", "postgresql")
only_sqlite = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)  # for what is about SQLite itself
only_postgresql = pytest.mark.parametrize("backend", ["postgresql"], indirect=True)


def make_writer(url: str) -> Writer:
    """Not started; answers come on the writer's thread."""
    return Writer(url, spawn=lambda run: threading.Thread(target=run).start(), notify=lambda function: function())


def make_row(id: str, received_at: int = 0, **fields: Any) -> AcceptedRow:
    """An accepted POST that names only what the test is about."""
    return AcceptedRow(id, received_at, WALL + received_at, "/v1/completions", **fields)


@dataclass
class Records:
    """A database, its writer and its readers. `path`: its file, where it is SQLite's."""

    path: Path = Path()
    url: str = ""
    answers: list[Exception | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.url = self.url or f"sqlite:///{self.path}"
        self.path = database.file_of(self.url) or Path()
        migrate.upgrade(self.url)
        self.start()
        self.queries = Queries(self.url)

    def start(self) -> None:
        """A new life of the writer."""
        self.writer = make_writer(self.url)
        self.writer.start()

    def accept(self, *rows: AcceptedRow) -> None:
        """Accept and wait for the answers."""
        for row in rows:
            self.writer.accept(row, self.answers.append)
        self.flush()

    def flush(self) -> None:
        """Wait until all that was handed over before is written."""
        self.job(lambda connection: None)

    def page_by_page(self, sort: str, size: int, params: dict[str, str]) -> list[str]:
        """The ids of all pages of so many requests, in order."""
        found, cursor = list[str](), None
        while True:
            rows, cursor = self.queries.ask(keyset.page, filters(params), order(sort), size, cursor)
            found += [row["id"] for row in rows]
            if cursor is None:
                return found

    def job(self, work: Callable[[Any], Any]) -> Any:
        """The result of a job, waited for."""
        ended, found = threading.Event(), list[Any]()

        def done(result: Any, error: Exception | None) -> None:
            found.append((result, error))
            ended.set()

        self.writer.job(work, done)
        assert ended.wait(WAIT_S), self.writer.stats()
        result, error = found[0]
        if error is not None:
            raise error
        return result

    def play(
        self, bench: Bench, requests: list[Request], *, run: str | None = None, settings: dict[str, Any] | None = None
    ) -> None:
        """Run requests through a real scheduler to the end and record everything that it says."""
        self.begin_life(bench, settings)
        rows = [
            make_row(each.id, bench.clock.now, run=run, client_request_id=f"c-{each.id}", tenant=each.tenant, kind=each.kind)
            for each in requests
        ]
        self.accept(*rows)
        bench.add(*requests)
        self.write(bench.run_to_idle())

    def begin_life(self, bench: Bench, settings: dict[str, Any] | None = None) -> None:
        """EngineStarted of the bench's boot: its clock's zero is WALL."""
        scheduler, given = bench.scheduler, {"policy": "fcfs", "max_num_seqs": 4} | (settings or {})
        started = scheduler.record(
            EngineStarted,
            bench.clock.now,
            wall=WALL,
            mono=0,
            settings=tuple(given.items()),
            blocks_total=scheduler.pool.total,
            block_size=scheduler.pool.size,
            runner="null",
            hardware=None,
            model="simulated",
        )
        self.write([started])

    def write(self, events: list[Event], host_late_ns: int = 0) -> None:
        """Write events and wait for them."""
        self.writer.events(events, host_late_ns)
        self.flush()

    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Look, or meddle, with another connection."""
        return rows(self.url, statement, *values)

    def close(self) -> None:
        """End the writer and the readers."""
        self.queries.close()
        assert self.writer.close()


def rows(url: str, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """What a database says to a statement; `?` marks a value."""
    path = database.file_of(url)
    if path is None:
        return postgres.rows(url, statement, *values)
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement, values).fetchall()


def make_bench(boot: int, **fields: Any) -> Bench:
    """A small scheduler with the boot's number."""
    return Bench(make_scheduler(boot=boot, **fields))


def some_requests(n: int, **fields: Any) -> list[Request]:
    """n requests `r0`, `r1`, … of mixed lengths and two tenants."""
    made = []
    for i in range(n):
        given = {"prompt": 3 + 5 * (i % 4), "max_tokens": 2 + i % 5, "tenant": "ab"[i % 2]} | fields
        made.append(make_request(f"r{i}", **given))
    return made


__all__ = [
    "BACKENDS",
    "MS",
    "WALL",
    "Records",
    "make_bench",
    "make_row",
    "make_writer",
    "only_postgresql",
    "only_sqlite",
    "rows",
    "some_requests",
]
