"""The SQL console reads what it may, writes nothing, and ends in time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from records import Records, make_bench, make_row, some_requests

from app.store import console
from app.store.errors import ConsoleBusy, QueryError

SECRET = "the text of a prompt"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT "
REFUSED = [
    "DELETE FROM requests", "UPDATE requests SET tenant = 'x'", "INSERT INTO runs(id) VALUES ('x')", "DROP TABLE requests",
    "CREATE TABLE x(y)", "CREATE TEMP TABLE x(y)", "CREATE TEMP VIEW x AS SELECT 1", "ALTER TABLE runs RENAME TO x", "VACUUM",
    "VACUUM INTO '/tmp/x'", "REINDEX", "ANALYZE", "DROP VIEW requests", "DELETE FROM main.requests", "BEGIN", "COMMIT",
    "SAVEPOINT x", "ATTACH ':memory:' AS x", "ATTACH '/etc/passwd' AS x", "DETACH main", "PRAGMA query_only=OFF",
    "PRAGMA table_info(requests)", "PRAGMA writable_schema=ON", "PRAGMA wal_checkpoint(TRUNCATE)",
    "SELECT load_extension('x')", "SELECT randomblob(1000000000)", "SELECT zeroblob(1000000000)",
    "SELECT readfile('/etc/passwd')",
    "SELECT writefile('/tmp/x', 'y')", "SELECT sqlite_version()", "SELECT sqlite_source_id()", "SELECT * FROM sqlite_master",
    "SELECT * FROM sqlite_schema", "SELECT * FROM sqlite_temp_master", "SELECT * FROM main.sqlite_master",
    "SELECT * FROM pragma_table_info('requests')", "SELECT * FROM pragma_database_list", "SELECT * FROM alembic_version",
    "SELECT * FROM dbstat", "SELECT * FROM sqlite_dbpage", "SELECT * FROM generate_series(1, 9)",
    "SELECT prompt_text FROM requests",
    "SELECT prompt_text FROM main.requests", "SELECT output_text FROM main.requests", "SELECT prompt_hash FROM main.requests",
    "SELECT * FROM main.requests", "SELECT count(*) FROM main.requests WHERE prompt_text LIKE 't%'",
    "SELECT 1 FROM main.requests ORDER BY prompt_text", "SELECT (SELECT prompt_text FROM main.requests LIMIT 1)",
    "WITH requests AS (SELECT prompt_text FROM main.requests) SELECT * FROM requests",
    "SELECT r.prompt_text FROM main.requests r JOIN requests USING (id)", "SELECT max(prompt_text) OVER () FROM main.requests",
    "SELECT count(*) FROM main.requests GROUP BY output_text", "SELECT 1; SELECT 2", "SELECT 1; DELETE FROM requests",
    "EXPLAIN SELECT 1; PRAGMA x", "SELEC 1", "SELECT nothing FROM requests", "SELECT '\0'", "-- nothing", "   ",
    "SELECT " + "(" * 200 + "1" + ")" * 200, "SELECT 1" + " UNION SELECT 1" * 30, "SELECT '" + "x" * 30_000 + "'",
    "SELECT replace(hex(printf('%400000d', 1)), '2', 'xxxxxx')", "SELECT ?", "SELECT :x",
    "SELECT fts3_tokenizer('simple')", "SELECT edit('x')", "CREATE VIRTUAL TABLE temp.x USING fts5(y)",
]  # fmt: skip


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Records]:
    path: Path = tmp_path_factory.mktemp("console")
    made = Records(path / "records.sqlite3")
    made.accept(make_row("a", prompt_text=SECRET, prompt_hash="f" * 64))
    made.play(make_bench(2), some_requests(5), run="one")
    yield made
    made.close()


@pytest.mark.parametrize("statement", REFUSED)
def test_what_is_no_plain_question_is_refused(records: Records, statement: str) -> None:
    before = hashlib.sha256(records.path.read_bytes()).digest()
    with pytest.raises(QueryError) as caught:
        records.queries.sql(statement)
    assert caught.value.param == "sql" and SECRET not in str(caught.value)
    assert hashlib.sha256(records.path.read_bytes()).digest() == before


def test_every_table_can_be_read_whole_and_hides_the_texts(records: Records) -> None:
    for table, columns in console.SCHEMA.items():
        answer = records.queries.sql(f"SELECT * FROM {table}")
        assert answer["columns"] == columns and answer["truncated"] is None
        assert SECRET not in str(answer["rows"])
    assert len(records.queries.sql("SELECT * FROM requests")["rows"]) == 6
    assert not {"prompt_text", "output_text", "prompt_hash"} & set(console.SCHEMA["requests"])


def test_questions_of_a_reader_are_answered(records: Records) -> None:
    ask = records.queries.sql
    assert ask("SELECT tenant, count(*) n FROM requests WHERE run = 'one' GROUP BY 1 ORDER BY 1")["rows"] == [
        ["a", 3],
        ["b", 2],
    ]
    assert ask("SELECT id, row_number() OVER (ORDER BY ttft_ms) FROM requests WHERE run = 'one' LIMIT 1")["rows"][0][1] == 1
    assert ask("SELECT key FROM settings_changes, json_each(changes)")["columns"] == ["key"]
    assert ask(ENDLESS + "i FROM n LIMIT 3")["rows"] == [[1], [2], [3]]
    assert ask("SELECT data ->> 'number' FROM request_events WHERE kind = 'RequestScheduled' LIMIT 1")["rows"] != [[None]]
    assert ask("SELECT slices, 9e999, NULL FROM steps LIMIT 1")["rows"][0][1:] == ["inf", None]


def test_an_answer_has_a_bound_of_rows_and_of_bytes_and_says_so(records: Records) -> None:
    answer = records.queries.sql(ENDLESS + "i FROM n")
    assert len(answer["rows"]) == console.MAX_ROWS and answer["truncated"] == "rows"
    large = records.queries.sql(ENDLESS + "printf('%900000d', i) FROM n")
    assert len(large["rows"]) == 4 and large["truncated"] == "size"


def test_what_does_not_end_is_stopped(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "LIMIT_S", 0.05)
    for what in ("count(*) FROM n", "1 FROM n WHERE i < 0", "sum(a.i) FROM n a, n b"):
        with pytest.raises(QueryError, match="stopped after 0.05 s"):
            records.queries.sql(ENDLESS + what)


def test_more_at_once_than_allowed_are_told_so(records: Records) -> None:
    turns = [records.queries._consoles.pop() for _ in range(console.AT_ONCE)]
    with pytest.raises(ConsoleBusy):
        records.queries.sql("SELECT 1")
    records.queries._consoles.extend(turns)
    for _ in range(console.AT_ONCE + 1):
        assert records.queries.sql("SELECT 1")["rows"] == [[1]]
        with pytest.raises(QueryError):
            records.queries.sql("SELECT")


def test_another_database_is_told_plainly() -> None:
    with pytest.raises(QueryError, match="embedded database"):
        console.answer("postgresql://x/y", "SELECT 1")
