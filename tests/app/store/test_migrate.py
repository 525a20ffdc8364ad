"""The schema goes up, down and up again, equals the models, and a newer one is refused."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from records import only_sqlite, rows
from sqlalchemy import Connection, inspect

from app.store import database, migrate, postgresql
from app.store.errors import DatabaseUnusable, SchemaError
from app.store.models import metadata

REVISIONS = [each.revision for each in reversed(list(ScriptDirectory(str(migrate.MIGRATIONS)).walk_revisions()))]


def tables(url: str) -> set[str]:
    with database.reading(url).connect() as connection:
        return set(inspect(connection).get_table_names()) - {"alembic_version"}


def shape(url: str) -> dict[str, Any]:
    """Columns and indexes of every table."""
    with database.reading(url).connect() as connection:
        seen = inspect(connection)
        return {
            name: (
                sorted((column["name"], str(column["type"]), column["nullable"]) for column in seen.get_columns(name)),
                sorted(
                    (index["name"], tuple(index["column_names"]), bool(index["unique"])) for index in seen.get_indexes(name)
                ),
                seen.get_pk_constraint(name)["constrained_columns"],
            )
            for name in seen.get_table_names()
        }


def difference(connection: Connection) -> list[Any]:
    found: list[Any] = compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata)
    return found


def test_up_down_and_up_again(bare_url: str) -> None:
    assert migrate.upgrade(bare_url) == migrate.head() == migrate.current(bare_url)
    assert tables(bare_url) == set(metadata.tables)
    assert migrate.downgrade(bare_url) == ""
    assert tables(bare_url) == set()
    assert migrate.upgrade(bare_url) == migrate.head()


def test_each_step_down_is_the_step_up_undone(bare_url: str) -> None:
    shapes = []
    for revision in REVISIONS:
        migrate.upgrade(bare_url, revision)
        shapes.append(shape(bare_url))
    assert all(earlier != later for earlier, later in pairwise(shapes)), "a revision that changes nothing"
    for revision, before in reversed(list(zip(REVISIONS, shapes, strict=True))):
        migrate.downgrade(bare_url, revision)
        assert shape(bare_url) == before, revision


@only_sqlite
def test_upgrading_twice_changes_nothing(bare_url: str) -> None:
    migrate.upgrade(bare_url)
    path = database.file_of(bare_url)
    assert path is not None
    before = path.read_bytes()
    migrate.upgrade(bare_url)
    assert path.read_bytes() == before


def test_the_migrated_schema_is_that_of_the_models(bare_url: str) -> None:
    migrate.upgrade(bare_url)
    with database.writing(bare_url).connect() as connection:
        assert difference(connection) == []
        indexes = {index["name"]: index for index in inspect(connection).get_indexes("request_events")}
    terminal = indexes["uq_request_events_terminal"]
    (partial,) = {str(text) for name, text in terminal["dialect_options"].items() if name.endswith("_where")}
    assert terminal["unique"] and partial == "terminal"


def test_a_newer_database_is_refused_untouched(bare_url: str) -> None:
    migrate.upgrade(bare_url)
    rows(bare_url, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaError, match="newer"):
        migrate.upgrade(bare_url)
    assert migrate.current(bare_url) == "9999"


def test_a_migration_that_fails_leaves_nothing_behind(bare_url: str) -> None:
    rows(bare_url, "CREATE TABLE steps (x INTEGER)")  # in the way of the first revision, which makes other tables before
    with pytest.raises(DatabaseUnusable, match="already exists"):
        migrate.upgrade(bare_url)
    assert tables(bare_url) == {"steps"} and migrate.current(bare_url) == ""


def test_a_reader_cannot_write(url: str) -> None:
    migrate.upgrade(url)
    with database.reading(url).connect() as connection, pytest.raises(Exception, match="read-?only"):
        connection.exec_driver_sql("DELETE FROM runs")


def test_one_migrates_at_a_time_and_the_other_finds_it_done(bare_url: str) -> None:
    found: list[str] = []
    both = [threading.Thread(target=lambda: found.append(migrate.upgrade(bare_url))) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert found == [migrate.head()] * 2


def test_who_writes_holds_others_off_and_they_are_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate.upgrade(url)
    monkeypatch.setattr(postgresql, "LOCK_TIMEOUT_MS", 20)
    monkeypatch.setattr(database, "_COMMON", ("PRAGMA busy_timeout=20",))
    with (
        database.writing(url).connect() as connection,
        connection.begin(),
        pytest.raises(DatabaseUnusable, match="locked by another process"),
    ):
        migrate.upgrade(url)


@only_sqlite
@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("mysql://u:secret@h/d", "not by mysql"),
        ("postgresql+psycopg2://u:secret@h/d", r"not by postgresql\+psycopg2"),
        ("nothing", "cannot be read"),
        ("postgresql://u:secret@127.0.0.1:1/d?connect_timeout=1", r"u:\*\*\*@127.0.0.1:1/d: .*[Cc]onnection"),
    ],
)
def test_a_url_that_cannot_serve_is_refused_in_words_without_its_password(backend: str, url: str, word: str) -> None:
    with pytest.raises(DatabaseUnusable, match=word) as caught:
        migrate.upgrade(url)
    assert "secret" not in str(caught.value)
