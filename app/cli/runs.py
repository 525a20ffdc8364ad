"""`batchscope runs`: load runs in a list, deleted, their load changed. What is in a run is in reports.py and bundles.py.

Knows no table of the database. Invariant: with --json the answer is printed as the API gives it; whatever changes is changed by
the server, which alone writes.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from app.cli.bundles import add_bundles
from app.cli.failures import OK, CommandError
from app.cli.limits import TABLE_LIMIT, positive
from app.cli.records import records
from app.cli.server import IN_TURNS_S, Server, named_or_holding
from app.cli.settings import server_settings
from app.cli.terminal import print_json, table
from app.store.runs import ACTIVE
from app.supervisor import scenarios


def add_runs(parser: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    """`runs` and `runs stop|delete|rate|export|import`."""
    parser.add_argument(
        "--limit", type=positive, default=TABLE_LIMIT, metavar="N", help="at most so many (default: %(default)s)"
    )
    parser.set_defaults(act=list_runs)
    words = parser.add_subparsers(title="subcommands", metavar="COMMAND")
    stop = words.add_parser(
        "stop",
        parents=[common],
        help="end a run while it goes on",
        description="What it sent is waited for and kept. Needs the server that it loads.",
    )
    stop.add_argument("run", metavar="RUN", help="id of the active run")
    stop.add_argument("--now", action="store_true", help="do not wait for what is in flight")
    stop.set_defaults(act=stop_run)
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
    bounds = f"{scenarios.LEAST_FACTOR:g} to {scenarios.MOST_FACTOR:g}"
    rate.add_argument("factor", metavar="FACTOR", type=float, help=f"{bounds}; 1 is the scenario's own load")
    rate.set_defaults(act=change_rate)
    add_bundles(words, common)


def list_runs(options: argparse.Namespace) -> int:
    """Load runs, newest first."""
    source = records(server_settings(options), options.url)
    answer = source.runs(options.limit)
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
            "status": item["status"] if source.served or item["status"] not in ACTIVE else "its server is gone",
            "scenario": item["scenario"] or item["name"],
            "on": _on(item),
        }
        for item in answer["items"]
    ]
    print(table(rows, columns) if rows else "no runs yet: `batchscope load first_look` makes one")
    return OK


def delete_runs(options: argparse.Namespace) -> int:
    """Delete runs; the server does it, since it alone writes."""
    server = _server(options, "it deletes the runs")
    answers = {run: server.delete(f"/api/runs/{quote(run, safe='')}", IN_TURNS_S) for run in options.run}
    if options.json:
        print_json(answers)
    else:
        print("\n".join(f"deleted {run}" for run in answers))
    return OK


def stop_run(options: argparse.Namespace) -> int:
    """Ask the active run to end; what there is of it is kept."""
    server, path = _server(options, "it stops the runs"), f"/api/runs/{quote(options.run, safe='')}"
    before = server.get(path)["status"]
    answer = server.post(f"{path}/stop", {"now": options.now})
    over, asked = f"run {options.run} has ended already: it is {before}", f"asked run {options.run} to stop"
    print_json(answer) if options.json else print(f"{asked}; what there is of it is kept" if before in ACTIVE else over)
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


def _on(run: Mapping[str, Any]) -> str | None:
    """What computed: the modelled hardware, or the model that ran; a run that was only simulated measured nothing."""
    engine = run.get("engine") or {}
    what = engine.get("hardware") or (engine.get("model") if engine.get("runner") == "torch" else engine.get("runner"))
    how = "simulated clock" if run["simulated"] else "simulated" if engine.get("hardware") else None
    return f"{what} ({how})" if what and how else what or how


def _instant(text: str | None) -> str | None:
    return None if text is None else text[:19].replace("T", " ")
