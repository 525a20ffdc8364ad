"""The schema of a database, brought to this code's version. Knows Alembic, no table.

Run before the writer starts, while nobody else has the database open; on a server the writer's lock holds others off.
Invariant: a migration that is killed leaves the schema it found; a database that is damaged, or newer than the code, is
refused, untouched: it is looked at read-only first.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from app.store import database
from app.store.errors import SchemaError
from app.store.refusal import damaged, unusable

MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations"
CHECKED_BYTES = 512 << 20  # a larger file is not read whole at each start: that would take seconds


def upgrade(url: str, revision: str = "head") -> str:
    """Bring the database to `revision`, making it if need be; returns the revision it is at.

    Raises SchemaError when it is newer, DatabaseDamaged or DatabaseUnusable when it cannot serve.
    """
    path = database.file_of(url)
    try:
        if path is not None and path.exists() and path.stat().st_size:
            _inspect(url, path)
        return _run(url, lambda config: command.upgrade(config, revision))
    except DBAPIError as error:
        raise unusable(error, path or database.name_of(url)) from error


def downgrade(url: str, revision: str = "base") -> str:
    """Take the database back to `revision`."""
    return _run(url, lambda config: command.downgrade(config, revision))


def head() -> str:
    """The revision that this code wants."""
    return ScriptDirectory.from_config(_config()).get_current_head() or ""


def current(url: str) -> str:
    """The revision that the database is at; "" for none."""
    engine = database.reading(url)
    with engine.connect() as connection:
        return _current(connection)


def _run(url: str, act: Callable[[Config], None]) -> str:
    config = _config()
    engine = database.writing(url)
    with engine.connect() as connection, connection.begin():
        _refuse_newer(connection, config)
        config.attributes["connection"] = connection
        act(config)
        return _current(connection)


def _inspect(url: str, path: Path) -> None:
    """Without writing a byte: is it sound, and do we know its schema?"""
    with database.reading(url).connect() as connection:
        if path.stat().st_size <= CHECKED_BYTES:
            said = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
            if said != "ok":
                raise damaged(path, said.splitlines()[-1])
        _refuse_newer(connection, _config())


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _current(connection: Connection) -> str:
    return MigrationContext.configure(connection).get_current_revision() or ""


def _refuse_newer(connection: Connection, config: Config) -> None:
    now = _current(connection)
    if not now:
        return
    try:
        ScriptDirectory.from_config(config).get_revision(now)
    except CommandError as error:
        raise SchemaError(
            f"the database is at revision {now}, which this version does not know: it is newer", "database"
        ) from error
