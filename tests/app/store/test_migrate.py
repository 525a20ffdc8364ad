"""The schema goes up, down and up again, equals the models, and a newer one is refused."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from app.store import database, migrate
from app.store.errors import SchemaError
from app.store.models import metadata


def tables(path: Path) -> set[str]:
    connection = sqlite3.connect(path)
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    connection.close()
    return names - {"alembic_version"}


def test_up_down_and_up_again(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite3"
    url = f"sqlite:///{path}"
    assert migrate.upgrade(url) == migrate.head() == migrate.current(url)
    assert tables(path) == set(metadata.tables)
    assert migrate.downgrade(url) == ""
    assert tables(path) == set()
    assert migrate.upgrade(url) == migrate.head()


def test_upgrading_twice_changes_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.sqlite3'}"
    migrate.upgrade(url)
    before = (tmp_path / "a.sqlite3").read_bytes()
    migrate.upgrade(url)
    assert (tmp_path / "a.sqlite3").read_bytes() == before


def test_the_migrated_schema_is_that_of_the_models(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.sqlite3'}"
    migrate.upgrade(url)
    with database.writing(url).connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        indexes = connection.exec_driver_sql("SELECT sql FROM sqlite_master WHERE name = 'uq_request_events_terminal'").scalar()
    assert "UNIQUE" in indexes and indexes.endswith("WHERE terminal")


def test_a_newer_database_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite3"
    migrate.upgrade(f"sqlite:///{path}")
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(SchemaError, match="newer"):
        migrate.upgrade(f"sqlite:///{path}")
    assert migrate.current(f"sqlite:///{path}") == "9999"


def test_a_migration_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite3"
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("CREATE TABLE steps (x)")  # in the way of the first revision, which makes other tables before
    connection.close()
    with pytest.raises(Exception, match="already exists"):
        migrate.upgrade(f"sqlite:///{path}")
    assert tables(path) == {"steps"}


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.sqlite3'}"
    migrate.upgrade(url)
    with database.reading(url).connect() as connection, pytest.raises(Exception, match="readonly"):
        connection.exec_driver_sql("DELETE FROM runs")
