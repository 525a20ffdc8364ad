"""Questions about requests: query parameters checked and turned into conditions. Knows no connection.

`q` is a search line (grammar.py): its terms are parameters like the named ones, and stand beside them.
Every filter of the list serves the summary and the exports as well, so that a figure can always be followed to its rows.
Invariant: an unknown or ill-formed parameter raises QueryError naming it; nothing is ignored in silence.
"""

from __future__ import annotations

import hashlib
import json
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, and_, literal, or_, select

from app.store.errors import QueryError
from app.store.fields import CHOICES, EXACT, INSTANTS, LACKS, MEASURES, RANGES, range_of
from app.store.grammar import misplaced, parse, write
from app.store.instants import wall_ns
from app.store.models import WAIT_COLUMNS, requests, runs
from scheduler.metrics import WAIT_REASONS

__all__ = ["MEASURES", "SORTS", "Filters", "Order", "filters", "fingerprint", "limit", "number", "order"]

SORTS: dict[str, str] = {"received": "received_wall", "id": "id", "priority": "priority"} | {name: name for name in MEASURES}
MAX_PAGE = 1000
DEFAULT_PAGE = 50
SIMULATED = "simulation"  # the endpoint of requests that nobody sent
RUN_ID = "run_"  # what ids of runs begin with, names and scenarios do not
_WIDEST = (1 << 63) - 1
_COMPARE = {"min_": operator.ge, "max_": operator.le, "above_": operator.gt, "below_": operator.lt}


@dataclass(frozen=True, slots=True)
class Filters:
    """What rows are asked for. `given` is the canonical form, `conditions` the SQL."""

    given: tuple[tuple[str, str], ...]
    conditions: tuple[ColumnElement[bool], ...]

    @property
    def run(self) -> str | None:
        """The run that is asked for by its id; None also where runs are, by their name or scenario."""
        run = dict(self.given).get("run")
        return run if run is not None and run.startswith(RUN_ID) else None

    @property
    def by_name(self) -> bool:
        """True where runs are asked for by their name or scenario: what was simulated is among the rows then."""
        return self.run is None and "run" in dict(self.given)

    @property
    def search(self) -> str:
        """The search line that asks for the same."""
        return write(self.given)


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
    asked = {name: value for name, value in params.items() if name not in also and name != "q" and value != ""}
    conditions = {name: _condition(name, value) for name, value in asked.items()}
    for term in parse(params.get("q", "")):
        if term.param in asked:
            raise misplaced(term.at, f"{term.param} is asked by a parameter too")
        try:
            conditions[term.param] = _condition(term.param, term.value)
        except QueryError as error:
            raise misplaced(term.at, error.message) from None
        asked[term.param] = term.value
    given = tuple(sorted(asked.items()))
    simulated = () if asked.get("run") else (requests.c.endpoint != SIMULATED,)
    return Filters(given, (*(conditions[name] for name, _ in given), *simulated))


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
    if not text.isascii() or not text.isdigit() or len(text) > 20 or not 1 <= int(text) <= most:
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
    if "\0" in value:
        raise QueryError(f"{name} holds a NUL character", name)
    if name == "run" and not value.startswith(RUN_ID):
        called = select(runs.c.id).where(or_(runs.c.name == value, runs.c.scenario == value))
        return or_(table.run == value, table.run.in_(called))
    if name in EXACT:
        return table[name] == value
    if name == LACKS:
        return and_(*(table[_choice(name, each, MEASURES)].is_(None) for each in value.split(",")))
    if name in CHOICES:
        chosen = table[name].in_([_choice(name, each, CHOICES[name]) for each in value.split(",")])
        live = name == "state" and "finished" not in value.split(",")
        return chosen & (table.state != "finished") if live else chosen  # said twice, so that the index of states serves
    if name == "wait":
        reason = _choice(name, value, WAIT_REASONS)
        return table[WAIT_COLUMNS[WAIT_REASONS.index(reason)]] > 0
    if name in INSTANTS:
        wall = wall_ns(value, name)
        return table.received_wall >= wall if name == "since" else table.received_wall < wall
    if name == "text":
        return table.id.icontains(value, autoescape=True) | table.client_request_id.icontains(value, autoescape=True)
    return _range(name, value)


def _range(name: str, value: str) -> ColumnElement[bool]:
    """A bound of a measure. Bounds of integers are integers: ns are exact, and the SQL text says what the question did."""
    found = range_of(name)
    if found is None:
        raise QueryError(f"unknown parameter {name!r}", name)
    end, column = found[0], requests.c[RANGES[found[1]]]
    bound: Any = number(value, name) * (1e6 if column.name.endswith("_ns") else 1)
    if column.type.python_type is int:
        whole = round(bound) if column.name.endswith("_ns") else bound
        nearest = math.ceil(whole) if end in ("min_", "below_") else math.floor(whole)
        bound = literal(max(-_WIDEST, min(_WIDEST, nearest)), BigInteger)  # it may be wider than the column
    condition: ColumnElement[bool] = _COMPARE[end](column, bound)
    return condition


def _choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise QueryError(f"{name} must be one of {', '.join(choices)}, not {value!r}", name)
    return value
