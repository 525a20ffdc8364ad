"""What Locust loads: `locust -f loadgen/locustfile.py --host http://127.0.0.1:8000 --scenario poisson`.

Works with Locust's own page, --headless, --processes and --master/--worker. Only wiring: arguments and events.
The requests come from the scenario; Locust's user count matters to its closed loop alone. Importing this patches.
"""

from __future__ import annotations

from typing import Any

from locust import events
from locust.runners import MasterRunner, WorkerRunner

from loadgen.crew import LocalCrew, RemoteCrew, Worker
from loadgen.director import Director, wishes_of
from loadgen.library import load, names
from loadgen.params import parse_pairs
from loadgen.users import LoadUser

__all__ = ["LoadUser"]


def add_arguments(parser: Any) -> None:
    """Straight on the parser: Locust's `include_in_web_ui` is unknown to argument groups."""
    parser.add_argument("--scenario", choices=names(), default="steady", help="scenario of the library")
    parser.add_argument("--set", action="append", default=None, metavar="NAME=VALUE", help="change a parameter of the scenario")
    parser.add_argument("--seed", type=int, default=1, help="seed of arrivals, lengths and prompts")
    parser.add_argument("--model", default="", help="model to name in requests; default: the first that the server lists")
    parser.add_argument(
        "--run-id", default="", include_in_web_ui=False, help="a run that the server knows; default: register one"
    )
    parser.add_argument("--out", default="", include_in_web_ui=False, help="folder for requests.jsonl and run.json")
    parser.add_argument("--orders", action="store_true", include_in_web_ui=False, help="take orders, JSON lines, on stdin")
    parser.add_argument("--progress", action="store_true", include_in_web_ui=False, help="a JSON line a second on stdout")


def on_init(environment: Any, runner: Any, **_: Any) -> None:
    """Join our part of the run to Locust's. A scenario that cannot be used ends Locust here, before any load."""
    if isinstance(runner, WorkerRunner):
        conductor: Worker | Director = Worker(environment)
    else:
        wishes = wishes_of(environment.parsed_options, environment.host)
        scenario = load(wishes.scenario, parse_pairs(wishes.pairs))
        if environment.parsed_options.num_users is None:
            environment.parsed_options.num_users = scenario.users
        crew = RemoteCrew(environment) if isinstance(runner, MasterRunner) else LocalCrew(environment)
        conductor = Director(environment, crew)
    environment.events.test_start.add_listener(lambda **_: conductor.begin())
    environment.events.test_stopping.add_listener(lambda **_: conductor.end())


events.init_command_line_parser.add_listener(add_arguments)
events.init.add_listener(on_init)
