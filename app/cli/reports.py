"""`batchscope report` and `compare`: what a run came to, and runs side by side. Reads and prints; changes nothing.

Knows no table of the database. Invariant: with --json the answer is printed as the API gives it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from app.cli.comparison_text import comparison_text
from app.cli.failures import OK, USAGE, CommandError
from app.cli.records import records
from app.cli.report_text import report_text
from app.cli.settings import server_settings
from app.cli.terminal import print_json
from app.report_file.page import report_html


def add_report(parser: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    """`report RUN`."""
    parser.add_argument("run", metavar="RUN", help="id of a run")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write it to one file that opens without a network")
    parser.set_defaults(act=show_report)


def add_compare(parser: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    """`compare RUN RUN …`."""
    parser.add_argument("run", nargs="+", metavar="RUN", help="two runs or more; the first is the base")
    parser.set_defaults(act=compare_runs)


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
