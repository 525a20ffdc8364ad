"""The command `sql`: one SELECT over the records, within the bounds of the console. Knows no table of the database.

Invariant: rows that were left out are told on standard error, so that standard output is the answer alone.
"""

from __future__ import annotations

import argparse
import json
import sys

from app.cli.failures import OK
from app.cli.records import records
from app.cli.settings import server_settings
from app.cli.terminal import print_json, say, table
from app.store.export import table_csv


def add_sql(parser: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    """`sql STATEMENT`."""
    parser.add_argument("statement", metavar="STATEMENT", help='as "SELECT tenant, avg(ttft_ms) FROM requests GROUP BY tenant"')
    parser.add_argument("--format", choices=("table", "csv", "jsonl"), default="table", help="how to print (default: table)")
    parser.epilog = (
        "Reads only: 1 s, 1,000 rows. Tables: requests, runs, request_events, steps, client_requests and more (page /sql)."
    )
    parser.set_defaults(act=ask_sql)


def ask_sql(options: argparse.Namespace) -> int:
    """The answer, printed."""
    answer = records(server_settings(options), options.url).sql(options.statement)
    columns, rows = answer["columns"], answer["rows"]
    named = [dict(zip(columns, row, strict=True)) for row in rows]
    if options.json:
        print_json(answer)
    elif options.format == "csv":
        sys.stdout.write(table_csv(columns, rows).decode())
    elif options.format == "jsonl":
        sys.stdout.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in named)
    else:
        print(table(named, [(name, name) for name in dict.fromkeys(columns)]) if rows else "no rows")
    if answer["truncated"]:
        say(f"the first {len(rows)} rows: there are more than the console gives at once")
    return OK
