"""Reads typed, ranged fields out of a decoded JSON object; each error names the field and a code. Knows no endpoint.

`null` counts as absent. Invariant: a bool is never taken for a number, a float never for an integer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.api.errors import ApiError, Problem, bad


def missing(param: str) -> ApiError:
    """A required field is not there."""
    return bad(f"missing required parameter: {param}", param, "missing_required_parameter")


def wrong_type(param: str, expected: str, value: object) -> ApiError:
    """A field has another JSON type."""
    return bad(f"{param} must be {expected}, not {json_type(value)}", param, "invalid_type")


def invalid(param: str, message: str) -> ApiError:
    """A field has the right type and a value that makes no sense."""
    return bad(message, param, "invalid_value")


def unsupported(param: str, why: str = "is not supported by this server") -> ApiError:
    """A known field that is not built."""
    return bad(f"{param} {why}", param, "unsupported_parameter")


def json_type(value: object) -> str:
    """What JSON calls the type of `value`."""
    names = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "an array", dict: "an object"}
    return names.get(type(value), "null")


def integer(body: Mapping[str, Any], name: str, low: int, high: int) -> int | None:
    """An integer in [low, high], or None when absent."""
    value = body.get(name)
    if value is None:
        return None
    if type(value) is not int:
        raise wrong_type(name, "an integer", value)
    _bound(name, value, low, high, "integer")
    return value


def number(body: Mapping[str, Any], name: str, low: float, high: float) -> float | None:
    """A number in [low, high], or None when absent."""
    value = body.get(name)
    if value is None:
        return None
    if type(value) not in (int, float):
        raise wrong_type(name, "a number", value)
    _bound(name, value, low, high, "decimal")
    return float(value)


def boolean(body: Mapping[str, Any], name: str) -> bool | None:
    """A boolean, or None when absent."""
    value = body.get(name)
    if value is not None and type(value) is not bool:
        raise wrong_type(name, "a boolean", value)
    return value


def string(body: Mapping[str, Any], name: str, longest: int, *, shortest: int = 0) -> str | None:
    """A string of bounded length, or None when absent."""
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise wrong_type(name, "a string", value)
    if len(value) > longest:
        raise bad(f"{name} must have at most {longest} characters", name, "string_above_max_length")
    if len(value) < shortest:
        raise bad(f"{name} must have at least {shortest} characters", name, "string_below_min_length")
    return value


def mapping(body: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """An object, or None when absent."""
    value = body.get(name)
    if value is not None and not isinstance(value, dict):
        raise wrong_type(name, "an object", value)
    return value


def array(body: Mapping[str, Any], name: str, most: int) -> list[Any] | None:
    """An array of at most `most` elements, or None when absent."""
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, list):
        raise wrong_type(name, "an array", value)
    if len(value) > most:
        raise bad(f"{name} must have at most {most} elements, not {len(value)}", name, "array_above_max_length")
    return value


def token_ids(values: Sequence[Any], param: str, vocab_size: int) -> tuple[int, ...]:
    """`values` as token ids; raises for what is no integer or lies outside the vocabulary."""
    if any(type(value) is not int for value in values):
        raise bad(f"{param} must hold integers", param, "invalid_type")
    if values and not (min(values) >= 0 and max(values) < vocab_size):
        raise invalid(param, f"{param} holds a token id outside of 0..{vocab_size - 1}")
    return tuple(values)


def refuse_unknown(body: Mapping[str, Any], known: frozenset[str]) -> None:
    """For our own endpoints: an unknown field is a mistake of the caller."""
    for name in body:
        if name not in known:
            problem = f"unknown field {name[:64]!r}; known: {', '.join(sorted(known))}"
            raise ApiError(Problem(400, problem, name[:64], "unknown_parameter"))


def _bound(name: str, value: float, low: float, high: float, kind: str) -> None:
    if value < low:
        raise bad(f"{name} must be at least {low}, not {value}", name, f"{kind}_below_min_value")
    if value > high:
        raise bad(f"{name} must be at most {high}, not {value}", name, f"{kind}_above_max_value")
