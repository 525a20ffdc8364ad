"""A database of every earlier schema is brought to this one: no row is lost or changed, and every page reads it.

The files of tests/schemas were written by the code of their time (make_old_database.py). A server's database of that
schema is made of the same rows.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from records import Records, rows
from sqlalchemy import Boolean, MetaData

from app.store import database, migrate, trace
from app.store.facets import facets_json, spread_json
from app.store.step_contents import step_json

FILES = sorted((Path(__file__).parents[2] / "schemas").glob("*.db.gz"))

Rows = dict[str, tuple[tuple[str, ...], list[tuple[Any, ...]]]]
IDS = {f"{prefix}r{n}" for prefix in "ab" for n in range(8)} | {"two", "giant", "open"}


def _named(value: object) -> str:
    """A file by its revision."""
    return value.name.split(".")[0] if isinstance(value, Path) else str(value)


@pytest.fixture(params=FILES, ids=_named)
def old(request: pytest.FixtureRequest, backend: str, bare_url: str, tmp_path: Path) -> str:
    """A database of an earlier schema, on the backend."""
    path = tmp_path / "old.db"
    path.write_bytes(gzip.decompress(request.param.read_bytes()))
    if backend == "sqlite":
        return f"sqlite:///{path}"
    migrate.upgrade(bare_url, request.param.name.split(".")[0])
    _copy(f"sqlite:///{path}", bare_url)
    return bare_url


def _copy(source: str, target: str) -> None:
    flags = {(table.name, column.name) for table in _tables(target) for column in table.c if isinstance(column.type, Boolean)}
    with psycopg.connect(target) as connection:
        for name, (columns, found) in all_rows(source).items():
            names, marks = map(sql.Identifier, columns), [sql.Placeholder()] * len(columns)
            line = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
                sql.Identifier(name), sql.SQL(", ").join(names), sql.SQL(", ").join(marks)
            )
            places = [place for place, column in enumerate(columns) if (name, column) in flags]
            connection.cursor().executemany(line, [_with_flags(row, places) for row in found])


def _with_flags(row: tuple[Any, ...], places: list[int]) -> list[Any]:
    """SQLite keeps truth as a number."""
    return [bool(value) if place in places and value is not None else value for place, value in enumerate(row)]


def _tables(url: str) -> list[Any]:
    seen = MetaData()
    with database.reading(url).connect() as connection:
        seen.reflect(connection)
    return [table for table in seen.sorted_tables if table.name != "alembic_version"]


def all_rows(url: str, of: Rows | None = None) -> Rows:
    """Table → (columns, rows in a fixed order), as they lie there; `of` names the tables and columns."""
    wanted = {table.name: tuple(table.c.keys()) for table in _tables(url)} if of is None else {name: of[name][0] for name in of}
    questions = {name: f"SELECT {', '.join(map(_quoted, columns))} FROM {name}" for name, columns in wanted.items()}
    return {name: (columns, sorted(rows(url, questions[name]), key=repr)) for name, columns in wanted.items()}


def _quoted(name: str) -> str:
    return f'"{name}"'


def test_every_row_of_then_is_there_and_the_same_and_goes_back(old: str) -> None:
    before, revision = all_rows(old), migrate.current(old)
    assert {len(before[name][1]) > 0 for name in before} == {True}, "an empty table proves nothing"
    assert migrate.upgrade(old) == migrate.head()
    assert all_rows(old, before) == before
    migrate.downgrade(old, revision)
    assert all_rows(old) == before


@pytest.mark.parametrize(
    ("backend", "old"), [*(("sqlite", path) for path in FILES), ("postgresql", FILES[0])], indirect=True, ids=_named
)
def test_pages_read_what_was_written_then(old: str) -> None:
    migrate.upgrade(old)
    records = Records(url=old)
    ask = records.queries.ask
    try:
        assert {item["id"] for item in records.queries.requests({"limit": "100"})["items"]} == IDS
        assert {run["id"] for run in records.queries.runs()["items"]} == {"calm", "crowded"}
        for run in ("calm", "crowded"):
            kept, made = records.queries.run(run)["report"], records.queries.report(run)
            assert made["reconciliation"]["sent"] == made["reconciliation"]["server_rows"] == 8
            for side in ("server", "client"):
                assert made["percentiles"][side]["ttft_ms"] == kept["percentiles"][side]["ttft_ms"]
            assert made["waits"] == kept["waits"] and made["steps"]["n"] >= kept["steps"]["n"] > 0
            assert records.queries.segments({"run": run})["segments"]["id"]
            assert len(records.queries.steps({"run": run})["steps"]["seq"]) == made["steps"]["n"]
            assert b'"traceEvents"' in b"".join(trace.stream(ask, {"run": run}))
        assert records.queries.report("crowded")["steps"]["preemptions"] > 0
        assert len(records.queries.compare(["calm", "crowded"])["runs"]) == 2
        for id in IDS:
            _detail_is_whole(records, id)
        assert sum(each["count"] for each in ask(facets_json, {})["facets"][0]["values"]) == len(IDS)
        assert ask(spread_json, {})["percentiles"] and records.queries.summary({})["total"]["count"] == len(IDS)
        first = records.queries.steps({"run": "calm"})["steps"]
        assert ask(step_json, first["boot"][0], first["seq"][0])["n_chunks"] > 0
    finally:
        records.close()


def _detail_is_whole(records: Records, id: str) -> None:
    shown = records.queries.request(id)
    assert shown is not None and shown["state"] == "finished"
    if id == "open":
        assert (shown["finish"], shown["detail"], shown["prompt_text"]) == ("error", "web_crash", "words that were kept")
        assert shown["ignored_fields"] == ["user"]
    elif id == "giant":
        assert shown["finish"] == "rejected" and not shown["slices"]["tokens"]
    else:
        assert shown["finish"] == "length" and sum(shown["slices"]["emitted"]) == shown["output_tokens"]
        assert [event["kind"] for event in shown["events"]][-1] == "RequestFinished"


def test_there_is_a_file_of_each_schema_that_people_may_have() -> None:
    assert [path.name.split(".")[0] for path in FILES] >= ["0001", "0002", "0003"]
    assert all(path.stat().st_size < 40_000 for path in FILES)
