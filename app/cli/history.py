"""The commands of history: runs, report, compare, requests. Reads and prints; only `runs delete` changes anything.

Knows no table of the database. Invariant: with --json the answer is printed as the API gives it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any
from urllib.parse import quote

from app.cli.bundles import add_bundles
from app.cli.comparison_text import comparison_text
from app.cli.failures import OK, USAGE, CommandError
from app.cli.records import PAGE, Records, all_requests, records
from app.cli.report_text import report_text
from app.cli.request_text import COLUMNS, request_text, table_row
from app.cli.server import Server, named_or_holding
from app.cli.settings import server_settings
from app.cli.terminal import print_json, table
from app.report_file.page import report_html
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
TABLE_LIMIT = 50


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
        "--limit", type=_positive, metavar="N", help=f"at most so many (default: {TABLE_LIMIT}; csv, jsonl, parquet: all)"
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


def add_runs(parser: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    """`runs` and `runs delete|rate|export|import`."""
    parser.add_argument(
        "--limit", type=_positive, default=TABLE_LIMIT, metavar="N", help="at most so many (default: %(default)s)"
    )
    parser.set_defaults(act=list_runs)
    words = parser.add_subparsers(title="subcommands", metavar="COMMAND")
    delete = words.add_parser(
        "delete", parents=[common], help="delete runs, their requests and events", description="Needs a server that is running."
    )
    delete.add_argument("run", nargs="+", help="id of a run")
    delete.set_defaults(act=delete_runs)
    rate = words.add_parser(
        "rate",
        parents=[common],
        help="change the load of a run while it goes on",
        description="From now on as many times the load that its scenario says. Needs the server that it loads.",
    )
    rate.add_argument("run", metavar="RUN", help="id of the active run")
    rate.add_argument("factor", metavar="FACTOR", type=float, help="0.1 to 10; 1 is the scenario's own load")
    rate.set_defaults(act=change_rate)
    add_bundles(words, common)


def list_requests(options: argparse.Namespace) -> int:
    """Requests by filters."""
    names = [*EXACT, *FILTERS, *(f"{end}-{name}" for end in ("min", "max") for name in MEASURES), "sort"]
    given = {name.replace("-", "_"): getattr(options, name.replace("-", "_")) for name in names}
    asked = {name: value for name, value in given.items() if value is not None}
    source = records(server_settings(options), options.url)
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


def list_runs(options: argparse.Namespace) -> int:
    """Load runs, newest first."""
    answer = records(server_settings(options), options.url).runs(options.limit)
    if options.json:
        print_json(answer)
        return OK
    columns = [("started", "started"), ("id", "run"), ("scenario", "scenario"), ("status", "status"), ("verdict", "verdict")]
    columns += [("sent", "sent"), ("ok", "ok"), ("failed", "failed"), ("refused", "refused"), ("on", "on")]
    rows = [
        {
            **(item.get("progress") or {}),
            **item,
            "started": _instant(item["started"]),
            "scenario": item["scenario"] or item["name"],
            "on": _on(item),
        }
        for item in answer["items"]
    ]
    print(table(rows, columns) if rows else "no runs yet: `batchscope load first_look` makes one")
    return OK


def show_report(options: argparse.Namespace) -> int:
    """The report of a run."""
    report = records(server_settings(options), options.url).report(options.run)
    if options.html is not None:
        options.html.write_bytes(report_html(report))
        print(f"wrote {options.html}", file=sys.stderr)
        return OK
    if options.json:
        print_json(report)
    else:
        print(report_text(report))
    return OK


def compare_runs(options: argparse.Namespace) -> int:
    """Runs side by side."""
    if len(options.run) < 2:
        raise CommandError("compare needs two runs or more", USAGE)
    answer = records(server_settings(options), options.url).compare(options.run)
    if options.json:
        print_json(answer)
    else:
        print(comparison_text(answer))
    return OK


def delete_runs(options: argparse.Namespace) -> int:
    """Delete runs; the server does it, since it alone writes."""
    server = _server(options, "it deletes the runs")
    answers = {run: server.delete(f"/api/runs/{quote(run, safe='')}") for run in options.run}
    if options.json:
        print_json(answers)
    else:
        print("\n".join(f"deleted {run}" for run in answers))
    return OK


def change_rate(options: argparse.Namespace) -> int:
    """Ask for another load; its generator says in the run's progress that it was made."""
    answer = _server(options, "its runs can be changed").post(
        f"/api/runs/{quote(options.run, safe='')}/rate", {"factor": options.factor}
    )
    print_json(answer) if options.json else print(f"asked run {options.run} for {options.factor:g} times its scenario's load")
    return OK


def _server(options: argparse.Namespace, why: str) -> Server:
    """The one that is named, or that holds the data directory."""
    directory = server_settings(options).directory
    server = named_or_holding(options.url, directory)
    if server is None:
        raise CommandError(f"no server holds {directory}; start one with `batchscope serve`, {why}")
    return server


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


def _on(run: Mapping[str, Any]) -> str | None:
    """What computed: the modelled hardware, or the model that ran; a run that was only simulated measured nothing."""
    engine = run.get("engine") or {}
    what = engine.get("hardware") or (engine.get("model") if engine.get("runner") == "torch" else engine.get("runner"))
    how = "simulated clock" if run["simulated"] else "simulated" if engine.get("hardware") else None
    return f"{what} ({how})" if what and how else what or how


def _instant(text: str | None) -> str | None:
    return None if text is None else text[:19].replace("T", " ")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value
