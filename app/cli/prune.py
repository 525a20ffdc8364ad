"""`batchscope db prune`: old records away, by age or by size. Asks the server that holds the directory, else does it itself.

Knows no table. Invariant: what was taken away before Ctrl-C stays away and is whole; a dry run changes nothing.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from app.cli.failures import OK, USAGE, CommandError
from app.cli.holding import held
from app.cli.records import existing_database
from app.cli.server import Server, client_key, holding
from app.cli.settings import server_settings
from app.cli.terminal import ProgressLine, print_json, say, size
from app.settings import ServerSettings
from app.store import database_size
from app.store.pruning import prune_here
from app.store.queries import Queries
from app.store.retention import Rule
from app.store.retention_plan import plan

CALL_S = 1.0  # of work a call: then it is said how far it is, and Ctrl-C is heard
_TIMES = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SIZES = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_AMOUNT = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?([A-Za-z]{1,2})")
_NAMES = {"request_events": "events", "client_requests": "lines of load generators"}


def add_prune(verbs: Any, common: argparse.ArgumentParser) -> None:
    """Below `db`: `prune`."""
    words = verbs.add_parser(
        "prune",
        parents=[common],
        help="take old records away, by age or by size",
        description="Take away runs that have ended, requests of no run, and steps that no run refers to, the oldest first. "
        "Never what is open, or under way.",
    )
    words.add_argument("--older-than", type=_age, metavar="AGE", help="what is older: 30d, 12h (s, m, h, d, w)")
    words.add_argument(
        "--larger-than", type=_bytes, metavar="SIZE", help="the oldest, until so much is left in use: 2GB, 500MB"
    )
    words.add_argument("--keep-runs", action="store_true", help="leave load runs, their requests and their steps")
    words.add_argument("--dry-run", action="store_true", help="say what would go, and change nothing")
    words.add_argument(
        "--vacuum",
        action="store_true",
        help="then write the file anew, smaller; no server may run, and it needs as much room again",
    )
    words.set_defaults(act=prune)


def prune(options: argparse.Namespace) -> int:
    """Old records away."""
    if options.older_than is None and options.larger_than is None and not options.vacuum:
        raise CommandError("say what may go: --older-than 30d, --larger-than 2GB, or both", USAGE)
    settings = server_settings(options)
    server = holding(settings.directory, client_key())
    if options.vacuum and server is not None:
        raise CommandError(f"--vacuum writes the file anew: stop the server of {settings.directory} first")
    rule = Rule(options.older_than, options.larger_than, options.keep_runs)
    if options.dry_run:
        return _foretell(options, rule, settings, server)
    gone = _prune(settings, server, rule)
    if options.vacuum:
        with held(settings.directory):
            before, after = database_size.vacuum(existing_database(settings))
        gone |= {"file_bytes_before": before, "file_bytes": after}
    print_json(gone) if options.json else print(_report(gone))
    return OK


def _foretell(options: argparse.Namespace, rule: Rule, settings: ServerSettings, server: Server | None) -> int:
    if server is not None:
        told = server.post("/api/db/prune", _body(rule) | {"dry_run": True})
    else:
        with closing(Queries(existing_database(settings))) as queries:
            told = queries.ask(plan, rule, time.time_ns())
    if options.json:
        print_json(told)
        return OK
    about = "" if told["removed_bytes"] is None else f", about {size(told['removed_bytes'])} of {size(told['bytes'])} in use"
    kept = told["oldest_kept"]
    then = f"the oldest request left would be of {kept[:19].replace('T', ' ')} UTC" if kept else "no request would be left"
    print(f"would remove {_rows(told['removed'])}{about}; {then}" if told["removed"] else f"nothing would go; {then}")
    return OK


def _prune(settings: ServerSettings, server: Server | None, rule: Rule) -> dict[str, Any]:
    """Piece by piece until it is done, or somebody has had enough."""
    removed, line = Counter[str](), ProgressLine()
    last: dict[str, Any] = {"done": True, "bytes": None}
    try:
        for told in () if rule.older_than_s is None and rule.larger_than is None else _rounds(settings, server, rule):
            last = told
            removed.update(told["removed"])
            line.show(None, f"{_rows(removed)} removed, at {told['reached'][:19].replace('T', ' ')}")
    except KeyboardInterrupt:
        say("stopped; what was removed stays removed, and the rest is whole")
    line.end()
    return {"removed": dict(removed), "done": last["done"], "bytes": last["bytes"]}


def _rounds(settings: ServerSettings, server: Server | None, rule: Rule) -> Iterator[dict[str, Any]]:
    if server is not None:
        since, done = None, False
        while not done:
            told = server.post("/api/db/prune", _body(rule) | {"seconds": CALL_S} | ({"since": since} if since else {}))
            since, done = told["reached"], told["done"]
            yield told
        return
    with held(settings.directory):
        url = existing_database(settings)
        yield from prune_here(url, rule, CALL_S)


def _body(rule: Rule) -> dict[str, Any]:
    given = {"older_than_s": rule.older_than_s, "larger_than_bytes": rule.larger_than, "keep_runs": rule.keep_runs}
    return {name: value for name, value in given.items() if value is not None}


def _report(gone: dict[str, Any]) -> str:
    said = [f"removed {_rows(gone['removed'])}"] if gone["removed"] else []
    said += [] if gone["bytes"] is None else [f"{size(gone['bytes'])} in use"]
    if "file_bytes" in gone:
        said.append(f"the file had {size(gone['file_bytes_before'])}, has {size(gone['file_bytes'])}")
    elif not gone["removed"]:
        said.insert(0, "nothing was removed")
    return "; ".join(said)


def _rows(removed: dict[str, int]) -> str:
    return ", ".join(f"{n:,} {_NAMES.get(name, name)}" for name, n in removed.items())


def _age(text: str) -> float:
    return _amount(text, _TIMES, "30d or 12h")


def _bytes(text: str) -> int:
    return round(_amount(text, _SIZES, "2GB or 500MB"))


def _amount(text: str, units: dict[str, int], example: str) -> float:
    match = _AMOUNT.fullmatch(text.strip())
    if match is None or match[2] not in units:
        raise argparse.ArgumentTypeError(f"{text!r} is not understood: write it as {example} ({', '.join(units)})")
    return float(match[1]) * units[match[2]]
