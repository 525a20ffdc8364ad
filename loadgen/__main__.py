"""`python -m loadgen`: list and check scenarios, run one headless, report on what a run wrote. Imports no Locust.

A run becomes Locust by exec, so that the process that a supervisor started is the one that it signals:
SIGTERM or SIGINT stop the run, wait 5 s for what is in flight, keep all that there is, and exit 0.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

import orjson

from loadgen.library import load, names
from loadgen.offered import offered
from loadgen.params import ScenarioError, parse_pairs
from loadgen.plan_lines import plan_lines
from loadgen.report import report
from loadgen.results import read_lines
from loadgen.scenario import Scenario
from loadgen.workload import Limits

LOCUSTFILE = Path(__file__).with_name("locustfile.py")


def main(argv: list[str] | None = None) -> int:
    """The exit code: 0 ok, 1 failed, 2 usage. A run does not return; it becomes Locust."""
    options = parse_arguments(argv)
    try:
        if options.list:
            return print_list(options.json)
        if options.report:
            return print_report(Path(options.report))
        scenario = load(options.scenario, parse_pairs(options.set))
        if options.plan:
            return print_plan(options, scenario)
    except ScenarioError as error:
        print(json.dumps({"error": {"message": str(error), "param": error.field}}), file=sys.stderr)
        return 2
    except OSError as error:
        print(json.dumps({"error": {"message": str(error), "param": "report"}}), file=sys.stderr)
        return 1
    if options.offered:
        print(json.dumps(offered(scenario)))
        return 0
    if options.check:
        print(json.dumps(scenario.as_json(), indent=None if options.json else 2))
        return 0
    return become_locust(options, scenario)


def become_locust(options: argparse.Namespace, scenario: Scenario) -> NoReturn:
    """Take over this process. A shell's background job would hand down an ignored SIGINT, and then nothing would stop it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execve(sys.executable, locust_command(options, scenario), environment())


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m loadgen", description="Load an OpenAI-compatible server by a scenario.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--list", action="store_true", help="list the scenarios with their parameters")
    what.add_argument("--scenario", metavar="NAME", help="run this scenario")
    what.add_argument(
        "--report", metavar="DIR", help="report as JSON on what a run wrote into DIR, from the client's side alone"
    )
    parser.add_argument(
        "--check", action="store_true", help="with --scenario: print it with its parameters settled, send nothing"
    )
    parser.add_argument(
        "--plan", default="", metavar="STREAM", help="with --scenario: print what this stream would ask, a line a request"
    )
    parser.add_argument(
        "--offered", action="store_true", help="with --scenario: print the arrivals a second that it would offer, send nothing"
    )
    parser.add_argument("--capacity", type=float, help="with --plan: what was measured, for arrivals that want it")
    parser.add_argument("--max-model-len", type=int, default=0, help="with --plan: most tokens of a request, 0 for no bound")
    parser.add_argument("--json", action="store_true", help="print compact JSON")
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="the server (default %(default)s)")
    parser.add_argument("--run", default="", metavar="ID", help="a run that the server knows; default: register one if it can")
    parser.add_argument("--seed", type=int, default=1, help="seed of arrivals, lengths and prompts (default %(default)s)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="change a parameter of the scenario")
    parser.add_argument("--model", default="", help="model to name in requests; default: the first that the server lists")
    parser.add_argument("--out", default="", metavar="DIR", help="folder for requests.jsonl and run.json")
    parser.add_argument(
        "--orders", action="store_true", help='take orders on stdin while it runs: {"rate_factor": 2}, {"stop": "now"}'
    )
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="load from N processes (default %(default)s)")
    options = parser.parse_args(argv)
    if options.processes < 1:
        parser.error("--processes must be at least 1")
    return options


def locust_command(options: argparse.Namespace, scenario: Scenario) -> list[str]:
    """The command line of the headless Locust that plays the scenario."""
    closed = scenario.closed
    command = [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), "--headless", "--only-summary", "--skip-log-setup"]
    command += ["--exit-code-on-error", "0", "--stop-timeout", "1", "--progress", f"--host={options.url}"]
    command += ["--users", str(scenario.users), "--spawn-rate", f"{closed.arrivals.spawn_rate if closed else 100:g}"]
    command += ["--scenario", scenario.name, "--seed", str(options.seed)]
    for flag, value in (("--run-id", options.run), ("--model", options.model), ("--out", options.out)):
        command += [f"{flag}={value}"] if value else []  # one word: a value that begins with -- is no flag
    command += [f"--set={pair}" for pair in options.set]
    command += ["--orders"] if options.orders else []
    if options.processes > 1:
        port = str(free_port())
        command += ["--processes", str(options.processes), "--master-host", "127.0.0.1", "--master-port", port]
        command += ["--master-bind-host", "127.0.0.1", "--master-bind-port", port]
    return command


def environment() -> dict[str, str]:
    """Ours without LOCUST_*, which would change the run, and with the folder of this package on the path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LOCUST_")}
    root = str(LOCUSTFILE.parent.parent)
    kept["PYTHONPATH"] = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
    return kept


def free_port() -> int:
    """A port for Locust's own messages, so that two runs do not meet on its default one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def print_list(compact: bool) -> int:
    print(json.dumps([load(name).as_json() for name in names()], indent=None if compact else 2))
    return 0


def print_plan(options: argparse.Namespace, scenario: Scenario) -> int:
    """Until it ends, or nobody reads."""
    limits = Limits(max_model_len=options.max_model_len)
    try:
        for line in plan_lines(scenario, options.plan, options.seed, limits, options.capacity):
            sys.stdout.buffer.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def print_report(folder: Path) -> int:
    """The client-only report of DIR/requests.jsonl; SLO and duration from DIR/run.json where there is one."""
    rows = read_lines(folder / "requests.jsonl")
    about: dict[str, Any] = {}
    if (folder / "run.json").exists():
        about = orjson.loads((folder / "run.json").read_bytes())
    scenario = about.get("scenario", {})
    figures = report(rows, scenario.get("slo", {}))
    known = {name: about[name] for name in ("run", "url", "model", "seed", "started", "totals", "capacity") if name in about}
    print(json.dumps({**known, "scenario": scenario.get("name"), **figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
