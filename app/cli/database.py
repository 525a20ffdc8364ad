"""`batchscope db upgrade|check|backup`: the schema brought to this version, the records asked whether they are sound, a copy.

Knows no table. Invariant: the schema is changed only under the lock that a server takes; `check` and `backup` only read.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from app.cli.failures import FAILED, OK
from app.cli.holding import held
from app.cli.prune import add_prune
from app.cli.records import existing_database
from app.cli.settings import server_settings
from app.cli.terminal import ProgressLine, print_json, size
from app.store import database, migrate, soundness
from app.store.backup import back_up
from app.store.consistency import Finding, findings, sizes
from app.store.instants import iso


def add_database(parser: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    """`db upgrade`, `db check`, `db backup` and `db prune`."""
    verbs = parser.add_subparsers(title="subcommands", metavar="COMMAND", required=True)
    up = verbs.add_parser("upgrade", parents=[common], help="bring the schema to this version", description=upgrade.__doc__)
    up.set_defaults(act=upgrade)
    sound = verbs.add_parser("check", parents=[common], help="is the database sound, and of this version?")
    sound.add_argument("--quick", action="store_true", help="only the file, and that less thoroughly")
    sound.set_defaults(act=check)
    copy = verbs.add_parser(
        "backup",
        parents=[common],
        help="copy the database while a server may write to it",
        description="Copy the database to one file, compact and checked. A server may go on writing meanwhile.",
    )
    copy.add_argument("file", type=Path, metavar="FILE", help="where to; a file that is there is not written over")
    copy.set_defaults(act=backup)
    add_prune(verbs, common)


def upgrade(options: argparse.Namespace) -> int:
    """Bring the schema to this version, making the database if need be. A server does the same when it starts."""
    settings = server_settings(options)
    with held(settings.directory):
        revision = migrate.upgrade(settings.records_url)
    _tell(
        options,
        {"database": database.name_of(settings.records_url), "revision": revision},
        f"the database is at revision {revision}",
    )
    return OK


def check(options: argparse.Namespace) -> int:
    """Revision, the database's own check of its pages and indexes, and whether the records agree with one another."""
    settings = server_settings(options)
    url = existing_database(settings)
    line = ProgressLine()
    line.show(None, "reading the file")
    faults = soundness.quick(url) if options.quick else soundness.faults(url)
    found: list[Finding] = []
    engine = database.reading(url)
    if not faults and not options.quick:
        found = list(findings(engine, lambda name, n, of: line.show(n / of, f"checking {name.replace('_', ' ')}")))
        faults = [each.sentence for each in found if each.question.fault]
    line.end()
    told = {"database": database.name_of(url), "revision": migrate.current(url), "sound": not faults, "faults": faults}
    told["left_over"] = {each.question.name: each.rows for each in found if not each.question.fault}
    told |= {} if options.quick else {"rows": sizes(engine)}
    _tell(options, told, _verdict(told, [each.sentence for each in found if not each.question.fault], database.file_of(url)))
    return FAILED if faults else OK


def backup(options: argparse.Namespace) -> int:
    """A copy of the database, made while a server may write to it."""
    line = ProgressLine()
    copy = back_up(
        existing_database(server_settings(options)),
        options.file,
        lambda done, of: line.show(done / max(of, 1), f"{size(done)} of about {size(of)} written"),
    )
    line.end()
    newest = iso(copy.newest)
    told = {"file": str(copy.path), "bytes": copy.bytes, "requests": copy.requests, "newest": newest, "sound": not copy.faults}
    until = f", the last received at {newest}" if newest else ""
    sentence = f"wrote {copy.path}: {size(copy.bytes)}, {copy.requests:,} requests{until}"
    fault = "".join(f"\n{each}" for each in copy.faults)
    _tell(options, told | {"faults": copy.faults}, f"{sentence}; " + (f"a check found:{fault}" if fault else "checked, sound"))
    return FAILED if copy.faults else OK


def _verdict(told: dict[str, Any], left_over: list[str], path: Path | None) -> str:
    if told["faults"]:
        lines = list(told["faults"])
        if path is not None:
            lines.append(f"{path} is as it was; a copy that passes this check can take its place while no server runs")
        return "\n".join(lines)
    rows = "".join(f"\n  {n:>12,} {name.replace('_', ' ')}" for name, n in told.get("rows", {}).items())
    return "\n".join([f"sound, at revision {told['revision']}{rows}", *left_over])


def _tell(options: argparse.Namespace, facts: dict[str, Any], sentence: str) -> None:
    if options.json:
        print_json(facts)
    else:
        print(sentence)
