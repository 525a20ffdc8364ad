"""Orders on stdin of whoever started this process, and the changes of rate that they made. Import only where Locust may patch.

A line each: {"rate_factor": 2} makes the load so many times what the scenario says from now on, {"stop": "now"} ends it
without waiting for what is in flight. What is no order is named on stderr, and nothing else happens.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from gevent.fileobject import FileObjectPosix

from loadgen.pace import users_at
from loadgen.scenario import Scenario

_FACTOR = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["rate_factor"]
LEAST, MOST = float(_FACTOR["least"]), float(_FACTOR["most"])


class Change(NamedTuple):
    """From second `at_s` of the run on."""

    at_s: float
    factor: float


class Changes:
    """Those of one run, oldest first."""

    def __init__(self) -> None:
        self._all: list[Change] = []

    def add(self, change: Change) -> None:
        self._all.append(change)

    def as_json(self, now_s: float, scenario: Scenario) -> dict[str, Any]:
        """For a progress line. `users`: of the closed loop, None where there is none."""
        factor = next((change.factor for change in reversed(self._all) if change.at_s <= now_s), 1.0)
        closed = scenario.closed
        users = None if closed is None else users_at(closed.arrivals.users, factor)
        changes = [{"at_s": round(change.at_s, 3), "factor": change.factor} for change in self._all]
        return {"rate_factor": factor, "rate_changes": changes, "users": users}


def listen(on_rate: Callable[[float], None], on_stop: Callable[[], None]) -> None:
    """Until nobody can give an order any more."""
    with FileObjectPosix(sys.stdin.fileno(), "rb", closefd=False) as lines:
        for line in lines:
            follow(line, on_rate, on_stop)


def follow(line: bytes, on_rate: Callable[[float], None], on_stop: Callable[[], None]) -> None:
    """One order."""
    try:
        order = orjson.loads(line)
    except orjson.JSONDecodeError:
        order = None
    match order:
        case {"rate_factor": float() | int() as factor} if not isinstance(factor, bool) and LEAST <= factor <= MOST:
            on_rate(float(factor))
        case {"stop": "now"}:
            on_stop()
        case _:
            print(f"loadgen: no order: {line[:80]!r}", file=sys.stderr, flush=True)
