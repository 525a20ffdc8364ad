"""Opening: what a server finds in its data directory before it serves: the records, of this version or brought to it, and the
key of the prompt hashes. Knows no part of the server.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from app.settings import ServerSettings
from app.store import migrate
from app.store.errors import DatabaseDamaged, SchemaError
from scheduler.errors import BatchscopeError


class AnotherVersion(BatchscopeError):
    """The database belongs to another version of the code."""


class Damaged(BatchscopeError):
    """The database is not sound."""


def records(settings: ServerSettings) -> str:
    """The URL of the records, whose tables are those of this version; raises AnotherVersion, Damaged."""
    try:
        migrate.upgrade(settings.records_url)
    except SchemaError as error:
        raise AnotherVersion(error.message, error.param) from error
    except DatabaseDamaged as error:
        raise Damaged(error.message, error.param) from error
    return settings.records_url


def hash_key(directory: Path) -> bytes:
    """Made once, and read by nobody but the owner."""
    path = directory / "hash.key"
    if not path.exists():
        path.touch(0o600)
        path.write_bytes(secrets.token_bytes(32))
    return path.read_bytes()
