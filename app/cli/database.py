"""`batchscope db upgrade` and `db check`: the schema brought to this version, the file asked whether it is sound.

Knows no table. Invariant: nothing is changed while a live server holds the data directory.
"""

from __future__ import annotations

import argparse

from app.cli.failures import FAILED, OK, CommandError
from app.cli.records import database_url, existing_database
from app.cli.server import client_key, holding
from app.cli.settings import server_settings
from app.cli.terminal import print_json
from app.settings import ServerSettings
from app.store import migrate, soundness


def add_database(parser: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    """`db upgrade` and `db check`."""
    verbs = parser.add_subparsers(title="subcommands", metavar="", required=True)
    up = verbs.add_parser("upgrade", parents=[common], help="bring the schema to this version", description=upgrade.__doc__)
    up.set_defaults(act=upgrade)
    sound = verbs.add_parser("check", parents=[common], help="is the database sound, and of this version?")
    sound.set_defaults(act=check)


def upgrade(options: argparse.Namespace) -> int:
    """Bring the schema to this version, making the database if need be. A server does the same when it starts."""
    settings = server_settings(options)
    _refuse_while_served(settings)
    settings.directory.mkdir(parents=True, exist_ok=True)
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


def _refuse_while_served(settings: ServerSettings) -> None:
    server = holding(settings.directory, client_key())
    if server is not None:
        raise CommandError(f"the server at {server.url} holds {settings.directory}: its schema is current; stop it first")


def _tell(options: argparse.Namespace, facts: dict[str, object], sentence: str) -> None:
    if options.json:
        print_json(facts)
    else:
        print(sentence)
