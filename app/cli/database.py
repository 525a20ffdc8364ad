"""`batchscope db upgrade` and `db check`: the schema brought to this version, the file asked whether it is sound.

Knows no table. Invariant: the schema is changed only under the lock that a server takes.
"""

from __future__ import annotations

import argparse
import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.cli.failures import FAILED, OK, CommandError
from app.cli.records import database_url, existing_database
from app.cli.settings import server_settings
from app.cli.terminal import print_json
from app.store import migrate, soundness


def add_database(parser: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    """`db upgrade` and `db check`."""
    verbs = parser.add_subparsers(title="subcommands", metavar="COMMAND", required=True)
    up = verbs.add_parser("upgrade", parents=[common], help="bring the schema to this version", description=upgrade.__doc__)
    up.set_defaults(act=upgrade)
    sound = verbs.add_parser("check", parents=[common], help="is the database sound, and of this version?")
    sound.set_defaults(act=check)


def upgrade(options: argparse.Namespace) -> int:
    """Bring the schema to this version, making the database if need be. A server does the same when it starts."""
    settings = server_settings(options)
    with held(settings.directory):
        revision = migrate.upgrade(database_url(settings))
    _tell(options, {"database": database_url(settings), "revision": revision}, f"the database is at revision {revision}")
    return OK


def check(options: argparse.Namespace) -> int:
    """Revision, and the database's own check of its pages and indexes."""
    settings = server_settings(options)
    url = existing_database(settings)
    faults = soundness.faults(url)
    found = {"database": url, "revision": migrate.current(url), "sound": not faults, "faults": faults}
    _tell(options, found, "\n".join(faults) if faults else f"sound, at revision {found['revision']}")
    return FAILED if faults else OK


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """The data directory, locked as a server locks it."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandError(f"a server holds {directory}: its schema is current, or is just being made so") from None
        yield


def _tell(options: argparse.Namespace, facts: dict[str, object], sentence: str) -> None:
    if options.json:
        print_json(facts)
    else:
        print(sentence)
