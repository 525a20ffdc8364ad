"""`batchscope load` and `scenarios`: a run by the server that holds the data directory, by one started for it, or without one.

A foreign server gets the load generator alone, and a report of what the client saw. Knows no arrival process.
Invariant: Ctrl-C ends the run, not the command: what there is is kept and reported; a second one ends the command.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import quote

from app.cli.failures import FAILED, OK, USAGE, CommandError
from app.cli.foreign import load_foreign
from app.cli.report_text import report_text
from app.cli.server import Server, client_key, holding, started
from app.cli.settings import server_arguments, server_settings
from app.cli.starting import add_starting, check_like_before, computes, refuse_starting
from app.cli.target import local_target
from app.cli.terminal import ProgressLine, pairs, print_json, say, table
from app.store.runs import ACTIVE
from app.supervisor import scenarios
from scheduler.errors import SettingsError
from scheduler.settings import parse_pairs

POLL_S = 0.5
READERS = {
    "int": int,
    "float": float,
    "str": str,
    "shape": str,
    "bool": lambda text: {"true": True, "false": False}[text.lower()],
}


def add_load(parser: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    """`load SCENARIO`."""
    parser.add_argument("scenario", metavar="SCENARIO", help="a name that `batchscope scenarios` lists")
    parser.add_argument("--set", action="append", default=[], metavar="K=V", help="change a parameter of the scenario")
    parser.add_argument("--seed", type=int, default=1, help="seed of arrivals, lengths and prompts (default: %(default)s)")
    parser.add_argument(
        "--scheduler", action="append", default=[], metavar="K=V", help="a scheduler setting for this run; put back at its end"
    )
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="load from N processes (default: %(default)s)")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="also write report.json here (a foreign target: the raw rows too)"
    )
    add_starting(parser)
    parser.set_defaults(act=load)


def add_scenarios(parser: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    """`scenarios [NAME]`."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="show this one with its parameters")
    parser.set_defaults(act=show_scenarios)


def show_scenarios(options: argparse.Namespace) -> int:
    """The library of scenarios, or one of them."""
    if options.name:
        found = scenarios.describe(options.name)
        print_json(found) if options.json else print(_scenario_text(found))
        return OK
    library = [scenarios.describe(name) for name in scenarios.names()]
    if options.json:
        print_json({"items": library})
    else:
        print(table(library, [("name", "scenario"), ("duration_s", "seconds"), ("title", "")]))
    return OK


def load(options: argparse.Namespace) -> int:
    """Run a scenario and report on it."""
    if options.processes < 1:
        raise CommandError("--processes must be at least 1", USAGE)
    wanted = scenario_values(options.scenario, options.set)
    scheduler = parse_pairs(options.scheduler)
    if options.url:
        options.url = local_target(options.url)
        refuse_starting(options, f"--url names {options.url}")
        server = Server(options.url, client_key())
        if server.status("/api/scheduler") not in (200, 401, 403, 429):
            if scheduler:
                raise CommandError(f"{options.url} is not a Batchscope server: --scheduler cannot be applied to it", USAGE)
            return load_foreign(options)
    with _server(options) as server:
        body = {"scenario": options.scenario, "set": wanted, "seed": options.seed, "scheduler": scheduler}
        run = server.post("/api/runs", body | {"processes": options.processes})
        ended = follow(server, run)
        report = server.get(f"/api/runs/{quote(run['id'], safe='')}/report")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "report.json").write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    print_json(report) if options.json else print(report_text(report))
    return FAILED if ended["status"] == "failed" else OK


def follow(server: Server, run: Mapping[str, Any]) -> dict[str, Any]:
    """Show the run's progress until it has ended; Ctrl-C asks it to stop, a second one is raised. Its last state.

    Raises CommandError, which names the run, where the server answers no more.
    """
    path, line = f"/api/runs/{quote(run['id'], safe='')}", ProgressLine()
    say(f"run {run['id']} of {run['scenario']} at {server.url}")
    try:
        return _followed(server, path, line)
    except CommandError as error:
        line.end()
        kept = f"what run {run['id']} recorded is kept: `batchscope report {run['id']}`"
        raise CommandError(f"{error.message}; {kept}", error.code) from error


def _followed(server: Server, path: str, line: ProgressLine) -> dict[str, Any]:
    try:
        return _until_ended(server, path, line)
    except KeyboardInterrupt:
        line.end()
        say("stopping the run; what there is is kept (Ctrl-C again leaves at once)")
        server.post(f"{path}/stop", {})
        return _until_ended(server, path, line)


def _until_ended(server: Server, path: str, line: ProgressLine) -> dict[str, Any]:
    while True:
        now: dict[str, Any] = server.get(path)
        line.show(*progress(now))
        if now["status"] not in ACTIVE:
            line.end()
            if now["error"]:
                say(now["error"])
            return now
        time.sleep(POLL_S)


def progress(run: Mapping[str, Any]) -> tuple[float | None, str]:
    """(share of the planned time, what to say) of a run."""
    figures, planned = run.get("progress") or {}, run.get("duration_s")
    elapsed = figures.get("t")
    done = min(elapsed / planned, 1.0) if elapsed is not None and planned else None
    clock = f"{elapsed or 0:.0f}" + (f" of {planned:.0f} s" if planned else " s")
    if run["status"] == "draining" and planned and (elapsed or 0) >= planned:
        clock = f"{elapsed - planned:.0f} s after {planned:.0f} s of sending"
    counts = ", ".join(f"{figures.get(name, 0)} {name}" for name in ("sent", "ok", "failed", "refused", "in_flight"))
    return done, f"{run['status']}  {clock}  {counts.replace('_', ' ')}"


def scenario_values(name: str, given: list[str]) -> dict[str, Any]:
    """`k=v` strings as the scenario's types want them, checked by its ranges; raises SettingsError."""
    kinds = {param["name"]: param["type"] for param in scenarios.describe(name)["parameters"]}
    values: dict[str, Any] = {}
    for pair in given:
        key, equals, text = pair.partition("=")
        if not equals:
            raise SettingsError(f"expected name=value, got {pair!r}", "set")
        values[key] = _typed(key, text, kinds.get(key, "str"))
    scenarios.describe(name, values)
    return values


def _typed(key: str, text: str, kind: str) -> Any:
    try:
        return READERS[kind](text)  # type: ignore[operator]
    except (ValueError, KeyError):
        raise SettingsError(f"set.{key} must be of type {kind}, not {text!r}", f"set.{key}") from None


def _server(options: argparse.Namespace) -> AbstractContextManager[Server]:
    if options.url:
        return nullcontext(Server(options.url, client_key()))
    settings = server_settings(options)
    server = holding(settings.directory, client_key())
    if server is not None:
        refuse_starting(options, f"{server.url} holds {settings.directory}")
        return nullcontext(server)
    check_like_before(options, settings)
    return started(settings, server_arguments(options), say, computes(settings))


def _scenario_text(found: Mapping[str, Any]) -> str:
    head = f"{found['name']}: {found['title']}\n\n{found['description']}"
    facts = {"seconds": found["duration_s"], "SLO": found["slo"], "scheduler settings": found["scheduler"] or None}
    columns = [("name", "parameter"), ("default", "default"), ("low", "from"), ("high", "to"), ("help", "")]
    return f"{head}\n\n{pairs(facts)}\n\n{table(found['parameters'], columns)}"
