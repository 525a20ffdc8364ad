"""Parameters of a scenario: typed, ranged values that a person may override. Knows nothing of load.

Invariant: a value that `Param.check` returned has the parameter's type and lies in its range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadgen.curve import read_points

Value = int | float | bool | str
KINDS: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,), "shape": (str,)}


class ScenarioError(Exception):
    """A scenario or one of its parameters cannot be used; `field` is the dotted name at fault."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message


def check_value(where: str, value: object, kind: str, low: float | None, high: float | None, choices: Sequence[str]) -> Value:
    """`value` if it has the type and lies in the range; raises ScenarioError naming `where`."""
    wanted = KINDS[kind]
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind != "bool"):
        raise ScenarioError(where, f"must be of type {kind}, not {value!r}")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise ScenarioError(where, "must be finite")
        if low is not None and value < low:
            raise ScenarioError(where, f"must be at least {low:g}, not {value:g}")
        if high is not None and value > high:
            raise ScenarioError(where, f"must be at most {high:g}, not {value:g}")
    if choices and value not in choices:
        raise ScenarioError(where, f"must be one of {', '.join(choices)}, not {value!r}")
    if kind == "shape":
        check_shape(where, str(value))
    assert isinstance(value, (int, float, bool, str))
    return float(value) if kind == "float" else value


def check_shape(where: str, text: str) -> None:
    """Raises ScenarioError naming `where` and the point at fault."""
    try:
        read_points(text)
    except ValueError as error:
        raise ScenarioError(where, str(error)) from None


@dataclass(frozen=True, slots=True)
class Param:
    """One knob of a scenario, as lists and forms show it."""

    name: str
    kind: str
    default: Value
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    def check(self, value: object) -> Value:
        return check_value(self.name, value, self.kind, self.low, self.high, self.choices)

    def parse(self, text: str) -> Value:
        """The value written as `text` on a command line."""
        if self.kind in ("str", "shape"):
            return self.check(text)
        if self.kind == "bool":
            if text.lower() not in ("true", "false"):
                raise ScenarioError(self.name, f"must be true or false, not {text!r}")
            return text.lower() == "true"
        try:
            number: Value = int(text) if self.kind == "int" else float(text)
        except ValueError:
            raise ScenarioError(self.name, f"must be of type {self.kind}, not {text!r}") from None
        return self.check(number)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.kind,
            "default": self.default,
            "low": self.low,
            "high": self.high,
            "choices": list(self.choices),
            "help": self.help,
        }


def settle(params: Sequence[Param], overrides: Mapping[str, object]) -> dict[str, Value]:
    """Every parameter's value: the override where there is one (text is parsed), else the default."""
    known = {param.name: param for param in params}
    for name in overrides:
        if name not in known:
            raise ScenarioError(name, f"unknown parameter; known: {', '.join(sorted(known)) or 'none'}")
    values: dict[str, Value] = {}
    for param in params:
        given = overrides.get(param.name, param.default)
        values[param.name] = param.parse(given) if isinstance(given, str) else param.check(given)
    return values


def parse_pairs(pairs: Sequence[str]) -> dict[str, str]:
    """`k=v` strings as a table; the last of a name wins."""
    table: dict[str, str] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise ScenarioError(name or pair, f"expected name=value, got {pair!r}")
        table[name] = text
    return table


def split_pairs(text: str) -> list[str]:
    """The pairs of one line, "users=4, shape=0:1 20:8": a word without "=" goes on with the value before it."""
    pairs = list[str]()
    for word in text.replace(",", " ").split():
        if "=" in word or not pairs:
            pairs.append(word)
        else:
            pairs[-1] += f" {word}"
    return pairs
