"""Reading a TOML table field by field, with the field's name in every complaint. Knows nothing of what fields mean.

Invariant: after `done()` no key of the table was left unread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loadgen.curve import Points, read_points
from loadgen.params import KINDS, Param, ScenarioError, Value, check_value

_REQUIRED: Any = object()


class Table:
    """A table at the dotted name `where`; "$name" stands for the value of a parameter."""

    def __init__(self, data: object, where: str, values: Mapping[str, Value], used: set[str] | None = None) -> None:
        if not isinstance(data, dict):
            raise ScenarioError(where, f"must be a table, not {data!r}")
        self.where = where
        self._data: dict[str, Any] = data
        self._values = values
        self._used: set[str] = set() if used is None else used
        self._seen: set[str] = set()

    def names(self) -> list[str]:
        return list(self._data)

    def done(self) -> None:
        """Complains of the first key that nobody asked for."""
        unknown = [name for name in self._data if name not in self._seen]
        if unknown:
            raise ScenarioError(self._name(unknown[0]), f"unknown key; known: {', '.join(sorted(self._seen))}")

    def all_used(self) -> None:
        """Complains of the first parameter that no value refers to."""
        idle = [name for name in self._values if name not in self._used]
        if idle:
            raise ScenarioError(f"params.{idle[0]}", "no value refers to this parameter")

    def scalar(self, name: str) -> Value:
        value = self._raw(name, _REQUIRED)
        if not isinstance(value, (int, float, bool, str)):
            raise ScenarioError(self._name(name), f"must be a number, a truth value or text, not {value!r}")
        return value

    def text(self, name: str, default: str = _REQUIRED, choices: Sequence[str] = ()) -> str:
        return str(self._typed(name, default, "str", None, None, choices))

    def points(self, name: str) -> Points:
        """A load shape, written as text."""
        return read_points(str(self._typed(name, _REQUIRED, "shape")))

    def flag(self, name: str, default: bool = _REQUIRED) -> bool:
        return bool(self._typed(name, default, "bool"))

    def number(self, name: str, default: float = _REQUIRED, low: float | None = None, high: float | None = None) -> float:
        return float(self._typed(name, default, "float", low, high))

    def integer(self, name: str, default: int = _REQUIRED, low: float | None = None, high: float | None = None) -> int:
        return int(self._typed(name, default, "int", low, high))

    def maybe_number(self, name: str, low: float | None = None) -> float | None:
        return None if self._is_absent(name) else self.number(name, low=low)

    def maybe_integer(self, name: str, low: float | None = None) -> int | None:
        return None if self._is_absent(name) else self.integer(name, low=low)

    def numbers(self, name: str) -> tuple[float, ...]:
        items = self.items(name)
        return tuple(float(check_value(f"{self._name(name)}[{i}]", item, "float", 0, None, ())) for i, item in enumerate(items))

    def child(self, name: str) -> Table:
        return Table(self._raw(name, {}), self._name(name), self._values, self._used)

    def children(self, name: str) -> list[Table]:
        items = self.items(name)
        return [Table(item, f"{self._name(name)}[{i}]", self._values, self._used) for i, item in enumerate(items)]

    def _name(self, name: str) -> str:
        return f"{self.where}.{name}" if self.where else name

    def _is_absent(self, name: str) -> bool:
        self._seen.add(name)
        return name not in self._data

    def items(self, name: str) -> list[Any]:
        items = self._raw(name, [])
        if not isinstance(items, list):
            raise ScenarioError(self._name(name), f"must be a list, not {items!r}")
        return items

    def _typed(
        self,
        name: str,
        default: Any,
        kind: str,
        low: float | None = None,
        high: float | None = None,
        choices: Sequence[str] = (),
    ) -> Value:
        return check_value(self._name(name), self._raw(name, default), kind, low, high, choices)

    def _raw(self, name: str, default: Any) -> Any:
        self._seen.add(name)
        value = self._data.get(name, default)
        if value is _REQUIRED:
            raise ScenarioError(self._name(name), "is missing")
        if isinstance(value, str) and value.startswith("$"):
            return self._parameter(name, value[1:])
        return value

    def _parameter(self, field: str, name: str) -> Value:
        if name not in self._values:
            raise ScenarioError(self._name(field), f"refers to {name!r}, which is no parameter")
        self._used.add(name)
        return self._values[name]


def read_params(data: object) -> tuple[Param, ...]:
    """The `[params]` table: each entry's default is checked against its own type and range."""
    if not isinstance(data, dict):
        raise ScenarioError("params", f"must be a table, not {data!r}")
    return tuple(_read_param(name, Table(each, f"params.{name}", {})) for name, each in data.items())


def _read_param(name: str, table: Table) -> Param:
    kind = table.text("type", choices=tuple(KINDS))
    choices = tuple(str(choice) for choice in table.items("choices"))
    param = Param(
        name=name,
        kind=kind,
        default=table.scalar("default"),
        help=table.text("help"),
        low=table.maybe_number("low"),
        high=table.maybe_number("high"),
        choices=choices,
    )
    table.done()
    try:
        return Param(name, kind, param.check(param.default), param.help, param.low, param.high, choices)
    except ScenarioError as error:
        raise ScenarioError(f"params.{name}.default", error.message) from None
