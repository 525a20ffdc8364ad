"""Questions about requests: query parameters checked and turned into conditions. Knows no connection.

Every filter of the list serves the summary and the exports as well, so that a figure can always be followed to its rows.
Invariant: an unknown or ill-formed parameter raises QueryError naming it; nothing is ignored in silence.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement

from app.store.errors import QueryError
from app.store.instants import wall_ns
from app.store.models import WAIT_COLUMNS, requests
from app.store.open_request import GRAVITY
from scheduler.metrics import WAIT_REASONS

STATES = ("waiting", "running", "preempted", "finished")
MEASURES = ("ttft_ms", "tpot_ms", "queue_ms", "e2e_ms", "prompt_tokens", "cached_tokens", "output_tokens", "preemptions")
SORTS: dict[str, str] = {"received": "received_wall", "id": "id", "priority": "priority"} | {name: name for name in MEASURES}
_EXACT = ("run", "tenant", "policy", "kind", "model", "endpoint", "detail", "client_request_id")
_CHOICES = {"state": STATES, "finish": GRAVITY, "top_wait": WAIT_REASONS}
MAX_PAGE = 1000
DEFAULT_PAGE = 50
SIMULATED = "simulation"  # the endpoint of requests that nobody sent


@dataclass(frozen=True, slots=True)
class Filters:
    """What rows are asked for. `given` is the canonical form, `conditions` the SQL."""

    given: tuple[tuple[str, str], ...]
    conditions: tuple[ColumnElement[bool], ...]

    @property
    def run(self) -> str | None:
        """The run asked for, if one is."""
        return dict(self.given).get("run")


@dataclass(frozen=True, slots=True)
class Order:
    """A whitelisted sort key; ties are broken by id in the same direction, NULLs are last in both."""

    key: str
    descending: bool

    @property
    def column(self) -> ColumnElement[Any]:
        """The column behind the key."""
        return requests.c[SORTS[self.key]]

    @property
    def text(self) -> str:
        """As the URL writes it."""
        return f"-{self.key}" if self.descending else self.key


def filters(params: Mapping[str, str], *, also: tuple[str, ...] = ()) -> Filters:
    """Check and translate; names in `also` belong to the caller. Empty values are no filter.

    What was simulated is among the rows only where its run is asked for.
    """
    given, conditions = [], []
    for name, value in sorted(params.items()):
        if name in also or value == "":
            continue
        conditions.append(_condition(name, value))
        given.append((name, value))
    if not params.get("run"):
        conditions.append(requests.c.endpoint != SIMULATED)
    return Filters(tuple(given), tuple(conditions))


def order(text: str | None) -> Order:
    """`-ttft_ms` and the like; newest first when nothing is asked."""
    text = text or "-received"
    key = text.removeprefix("-")
    if key not in SORTS:
        raise QueryError(f"sort must be one of {', '.join(SORTS)} (with - for descending), not {text!r}", "sort")
    return Order(key, text.startswith("-"))


def limit(text: str | None, most: int = MAX_PAGE, default: int = DEFAULT_PAGE, param: str = "limit") -> int:
    """A whole number from 1 to `most`."""
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:12]) <= most:
        raise QueryError(f"{param} must be a whole number from 1 to {most}, not {text!r}", param)
    return int(text)


def number(text: str, param: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise QueryError(f"{param} must be a number, not {text!r}", param)
    return value


def fingerprint(asked: Filters, sort: Order) -> str:
    """Names a question, so that a cursor of another one is recognised."""
    return hashlib.sha256(json.dumps([asked.given, sort.text]).encode()).hexdigest()[:16]


def _condition(name: str, value: str) -> ColumnElement[bool]:
    table = requests.c
    if name in _EXACT:
        return table[name] == value
    if name in _CHOICES:
        chosen = table[name].in_([_choice(name, each, _CHOICES[name]) for each in value.split(",")])
        live = name == "state" and "finished" not in value.split(",")
        return chosen & (table.state != "finished") if live else chosen  # said twice, so that the index of states serves
    if name == "wait":
        reason = _choice(name, value, WAIT_REASONS)
        return table[WAIT_COLUMNS[WAIT_REASONS.index(reason)]] > 0
    if name == "since":
        return table.received_wall >= wall_ns(value, name)
    if name == "until":
        return table.received_wall < wall_ns(value, name)
    if name[:4] in ("min_", "max_") and name[4:] in MEASURES:
        column, bound = table[name[4:]], number(value, name)
        return column >= bound if name.startswith("min_") else column <= bound
    raise QueryError(f"unknown parameter {name!r}", name)


def _choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise QueryError(f"{name} must be one of {', '.join(choices)}, not {value!r}", name)
    return value
