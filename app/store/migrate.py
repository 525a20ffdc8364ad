"""The schema of a database, brought to this code's version. Knows Alembic, no table.

Run before the writer starts, while nobody else has the database open.
Invariant: a migration that is killed leaves the schema it found; a database newer than the code is refused, untouched.
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

from app.store import database
from app.store.errors import SchemaError

MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations"


def upgrade(url: str, revision: str = "head") -> str:
    """Bring the database to `revision`, making it if need be; returns the revision it is at."""
    return _run(url, lambda config: command.upgrade(config, revision))


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
