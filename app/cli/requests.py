"""`batchscope requests`: requests by filters, or one. Reads and prints; changes nothing.

Knows no table of the database. Invariant: with --json the answer is printed as the API gives it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from app.cli.failures import OK, USAGE, CommandError
from app.cli.limits import TABLE_LIMIT, positive
from app.cli.records import PAGE, Records, all_requests, records
from app.cli.request_text import COLUMNS, request_text, table_row
from app.cli.settings import server_settings
from app.cli.terminal import print_json, table
from app.store.export import csv_head, csv_rows
from app.store.parquet import ParquetPages

EXACT = ("run", "tenant", "kind", "policy", "model", "endpoint", "detail", "client-request-id")
MEASURES = ("ttft-ms", "tpot-ms", "queue-ms", "e2e-ms", "prompt-tokens", "cached-tokens", "output-tokens", "preemptions")
FILTERS = {
    "q": "a search line, as 'state:finished ttft>500ms wait.kv_blocks>200ms preemptions>0 \"part of an id\"'",
    "state": "waiting, running, preempted or finished; several with commas",
    "finish": "stop, length, abort, timeout, rejected or error; several with commas",
    "wait": "those that waited for this reason at all, as kv_blocks",
    "top-wait": "those that waited longest for this reason",
    "since": "received at or after this ISO 8601 instant",
    "until": "received before this ISO 8601 instant",
}


def add_requests(parser: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    """`requests [filters]` and `requests show ID`."""
    for name in EXACT:
        parser.add_argument(f"--{name}", help=f"those with this {name.replace('-', ' ')}")
    for name, help in FILTERS.items():
        parser.add_argument(f"--{name}", help=help)
    for name in MEASURES:
        parser.add_argument(f"--min-{name}", metavar="N", help=argparse.SUPPRESS)
        parser.add_argument(f"--max-{name}", metavar="N", help=argparse.SUPPRESS)
    parser.add_argument(
        "--sort", metavar="KEY", help="received, priority or a measure; -KEY for descending (default: -received)"
    )
    parser.add_argument(
        "--limit", type=positive, metavar="N", help=f"at most so many (default: {TABLE_LIMIT}; csv, jsonl, parquet: all)"
    )
    parser.add_argument("--format", choices=tuple(FORMATS), default="table", help="how to print (default: table)")
    parser.epilog = f"Also --min-M and --max-M for each measure M: {', '.join(MEASURES)}."
    parser.set_defaults(act=list_requests)
    show = parser.add_subparsers(title="subcommands", metavar="COMMAND").add_parser(
        "show", parents=[common], help="one request, whole", description="One request: its times, waits, events and slices."
    )
    show.add_argument("id", help="its id, as req_…")
    show.add_argument("--all", action="store_true", help="leave out no stretch of its waits and no slice")
    show.set_defaults(act=show_request)


def list_requests(options: argparse.Namespace) -> int:
    """Requests by filters."""
    names = [*EXACT, *FILTERS, *(f"{end}-{name}" for end in ("min", "max") for name in MEASURES), "sort"]
    given = {name.replace("-", "_"): getattr(options, name.replace("-", "_")) for name in names}
    asked = {name: value for name, value in given.items() if value is not None}
    source = records(server_settings(options), options.url)
    if options.run and not source.requests({"run": options.run, "limit": "1"})["items"]:
        source.run(options.run)  # raises where there is none: a run without requests is no mistake, a mistyped one is
    if options.json:
        print_json(source.requests(asked | {"limit": str(options.limit or TABLE_LIMIT)}))
        return OK
    most = options.limit or (TABLE_LIMIT if options.format == "table" else None)
    rows = all_requests(source, asked, most)
    if options.format == "table":
        shown = list(rows)
        _print_table(shown)
        print(_left_out(source, asked, len(shown)) if len(shown) == most else "", end="")
    else:
        FORMATS[options.format](rows)
    return OK


def show_request(options: argparse.Namespace) -> int:
    """One request."""
    found = records(server_settings(options), options.url).request(options.id)
    if options.json:
        print_json(found)
    else:
        print(request_text(found, every=options.all))
    return OK


def _print_table(rows: Iterable[Mapping[str, Any]]) -> None:
    shown = [table_row(row) for row in rows]
    print(table(shown, COLUMNS) if shown else "no such requests")


def _left_out(source: Records, asked: Mapping[str, str], shown: int) -> str:
    """A line that says of how many these are the first; "" where they are all."""
    page = source.requests({**asked, "limit": "1"})
    if page["total"] == shown and page["total_exact"]:
        return ""
    return f"{shown} of {'' if page['total_exact'] else 'at least '}{max(page['total'], shown)} (--limit)\n"


def _print_csv(rows: Iterable[Mapping[str, Any]]) -> None:
    sys.stdout.write(csv_head().decode())
    for row in rows:
        sys.stdout.write(csv_rows([row]).decode())


def _print_lines(rows: Iterable[Mapping[str, Any]]) -> None:
    for row in rows:
        print(json.dumps(row, ensure_ascii=False))


def _write_parquet(rows: Iterable[Mapping[str, Any]]) -> None:
    if sys.stdout.isatty():
        raise CommandError(
            "Parquet is no text: send it to a file, as `batchscope requests --format parquet > slow.parquet`", USAGE
        )
    made, kept = ParquetPages(), iter(rows)
    while page := list(islice(kept, PAGE)):
        sys.stdout.buffer.write(made.add([dict(row) for row in page]))
    sys.stdout.buffer.write(made.end())


FORMATS: dict[str, Callable[[Iterable[Mapping[str, Any]]], None]] = {
    "table": _print_table,
    "csv": _print_csv,
    "jsonl": _print_lines,
    "parquet": _write_parquet,
}
