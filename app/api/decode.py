"""The one JSON decoder of the HTTP face: strict, bounded, and able to say which field is at fault. Knows no endpoint.

Refused: bytes that are not UTF-8, duplicate keys, NaN and infinities (written out or by overflow), numbers of absurd
length, nesting beyond 64, more values than a request can mean, lone surrogates, a root that is not an object.
Invariant: what `decode_object` returns can be encoded as UTF-8 JSON again and holds only finite numbers, whole ones of at
most 64 bits.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from app.api.errors import ApiError, bad

MAX_DEPTH = 64
MAX_DIGITS = 20
MAX_VALUES = 300_000  # commas and brackets outside strings: decoding holds the hub, and so many take about 0.1 s
# Possessive, and a string need not end: with either left out, 32 kB of escaped quotes cost seconds of backtracking.
_STRUCTURE = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{},]', re.DOTALL)


def decode_object(body: bytes) -> dict[str, Any]:
    """The JSON object in `body`; raises ApiError (400)."""
    _check_structure(body)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise bad(f"the body is not UTF-8 (byte {error.start})", None, "invalid_json") from None
    try:
        value = _decoder.decode(text)
    except json.JSONDecodeError as error:
        message = f"the body is not valid JSON: {error.msg} at line {error.lineno} column {error.colno}"
        raise bad(message, None, "invalid_json") from None
    except OverflowError:
        _check_scalars(_whole.decode(text), "")
        raise
    except RecursionError:
        raise bad(f"the body is nested deeper than {MAX_DEPTH}", None, "invalid_json") from None
    if not isinstance(value, dict):
        raise bad("the body must be a JSON object", None, "invalid_type")
    if b"\\u" in body:
        _check_scalars(value, "")
    return value


def decode_lines(body: bytes) -> list[dict[str, Any]]:
    """The JSON objects of an NDJSON body, one a line; blank lines are skipped."""
    rows = []
    for number, line in enumerate(body.split(b"\n"), 1):
        if line.strip():
            try:
                rows.append(decode_object(line))
            except ApiError as error:
                raise bad(f"line {number}: {error.message}", error.param, "invalid_json") from None
    return rows


def _check_structure(body: bytes) -> None:
    """Before parsing: the parser recurses, and 200 kB of brackets would exhaust its stack."""
    brackets = body.count(b"[") + body.count(b"{")
    if brackets <= MAX_DEPTH and body.count(b",") + brackets <= MAX_VALUES:
        return
    depth = values = 0
    for match in _STRUCTURE.finditer(body):
        first = body[match.start()]
        if first in b'"':
            continue
        values += 1
        if values > MAX_VALUES:
            raise bad(f"the body holds more than {MAX_VALUES} values", None, "invalid_json")
        if first in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise bad(f"the body is nested deeper than {MAX_DEPTH}", None, "invalid_json")
        elif first in b"]}":
            depth -= 1


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise bad(f"the key {name[:64]!r} occurs twice", name[:64], "invalid_json")
            seen.add(name)
    return value


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise bad(f"the number {text[:32]} is out of range", None, "invalid_json")
    return value


def _of_digits(text: str) -> int:
    if len(text.lstrip("-")) > MAX_DIGITS:
        raise bad(f"an integer has more than {MAX_DIGITS} digits", None, "invalid_json")
    return int(text)


def _int(text: str) -> int:
    """Raises OverflowError beyond 64 bits: where that stands, only the whole value can tell."""
    value = _of_digits(text)
    if len(text) > 18 and _beyond(value):
        raise OverflowError
    return value


def _beyond(value: int) -> bool:
    return not -(1 << 63) <= value < 1 << 64


def _constant(text: str) -> float:
    raise bad(f"{text} is not JSON", None, "invalid_json")


def _check_scalars(value: Any, path: str) -> None:
    """Escapes can spell half a surrogate pair, and digits a number beyond 64 bits: no encoding of ours can carry either."""
    if type(value) is int and _beyond(value):
        raise bad(f"{path} is beyond 64 bits", path or None, "integer_out_of_range")
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise bad("a string holds half a surrogate pair", path or None, "invalid_unicode") from None
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_scalars(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            _check_scalars(name, path)
            _check_scalars(item, f"{path}.{name}" if path else name)


_decoder = json.JSONDecoder(object_pairs_hook=_pairs, parse_float=_float, parse_int=_int, parse_constant=_constant)
_whole = json.JSONDecoder(object_pairs_hook=_pairs, parse_float=_float, parse_int=_of_digits, parse_constant=_constant)
