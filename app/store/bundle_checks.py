"""What a row of a bundle must satisfy, value by value: it comes from a stranger. Knows the tables' columns, no file.

Invariant: a row that passes can be stored, and every reader of the records finds in it what it takes for granted.
"""

from __future__ import annotations

import math
import zlib
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, Column, Float, Integer, LargeBinary, String, Table

from app.store.client_rows import STATUSES
from app.store.errors import BundleError
from app.store.models import boots, client_requests, request_events, requests, runs, settings_changes, steps
from app.store.packing import unpack_gaps, unpack_slices
from app.store.runs import ACTIVE, LAWFUL
from scheduler.core.events import EVENT_TYPES
from scheduler.metrics import WAIT_REASONS

MAX_TEXT = 4 << 20
MAX_PACKED = 4 << 20  # bytes of a step's slices or a request's gaps, unpacked
_ENDED = tuple(status for status in LAWFUL if status not in ACTIVE)
_KINDS = {kind.__name__ for kind in EVENT_TYPES}
_LISTS = ("ignored_fields",)
_WHOLE, _WORD = (int,), (str,)
# What readers take for granted in the data of an event, by kind. The web's own ends have no number and no parts.
_DATA: dict[str, dict[str, tuple[type, ...]]] = {
    "RequestQueued": {"received_at": _WHOLE, "tenant": _WORD, "kind": _WORD},
    "RequestScheduled": {"number": _WHOLE, "slot": _WHOLE, "cached_tokens": _WHOLE, "resumed": (bool,)},
    "RequestPreempted": {"number": _WHOLE, "slot": _WHOLE, "computed_tokens_lost": _WHOLE},
    "RequestParked": {"number": _WHOLE, "cause": _WORD},
    "RequestUnparked": {"number": _WHOLE},
    "FirstToken": {"number": _WHOLE},
    "RequestFinished": {"reason": _WORD},
}


def checked(table: Table, names: list[str], values: list[Any], run: str, lives: int) -> dict[str, Any]:
    """The row; raises BundleError naming the field at fault. `run`: whose rows these are; `lives`: numbered from 1 to this."""
    if len(values) != len(names):
        raise BundleError(f"a row of {table.name} has {len(values)} values for {len(names)} columns", table.name)
    row = {name: _value(table.c[name], value) for name, value in zip(names, values, strict=True)}
    boot = row.get("boot")
    if boot is not None and not 1 <= boot <= lives:
        raise _wrong(table.c.boot, f"must be a life from 1 to {lives}", boot)
    _CHECKS[table.name](row, run)
    return row


def _value(column: Column[Any], value: Any) -> Any:
    if value is None:
        if not column.nullable:
            raise _wrong(column, "must not be null", value)
        return None
    kind = column.type
    if isinstance(kind, JSON):
        shape, said = (list, "a list") if column.name in _LISTS else (dict, "an object")
        return value if isinstance(value, shape) else _refuse(column, f"must be {said}", value)
    if isinstance(kind, Boolean):
        return value if isinstance(value, bool) else _refuse(column, "must be true or false", value)
    if isinstance(kind, LargeBinary):
        return _bytes(column, value)
    if isinstance(kind, String):
        return _text(column, value, kind.length or MAX_TEXT)
    return _number(column, value)


def _number(column: Column[Any], value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(column, "must be a number", value)
    if isinstance(column.type, Float):
        return float(value) if math.isfinite(value) else _refuse(column, "must be finite", value)
    bits = 63 if isinstance(column.type, BigInteger) else 31
    if not isinstance(value, int) or not -(1 << bits) <= value < 1 << bits:
        raise _wrong(column, f"must be a whole number of {bits + 1} bits", value)
    assert isinstance(column.type, Integer)
    return value


def _text(column: Column[Any], value: Any, most: int) -> str:
    if not isinstance(value, str) or len(value) > most or "\0" in value:
        raise _wrong(column, f"must be text of at most {most} characters", value)
    return value


def _bytes(column: Column[Any], value: Any) -> bytes:
    try:
        data = b64decode(value, validate=True)
        if data[:1] == b"\1":
            inflater = zlib.decompressobj()
            inflater.decompress(data[1:], MAX_PACKED)
            if inflater.unconsumed_tail or not inflater.eof:
                raise ValueError("too large, or cut short")
        unpack_slices(data) if column.name == "slices" else unpack_gaps(data)
    except (ValueError, TypeError, zlib.error, IndexError):
        raise _wrong(column, f"must be packed {column.name} in base64", value) from None
    return data


def _run(row: Mapping[str, Any], run: str) -> None:
    _must(runs.c.id, row["id"] == run, f"must be {run}", row["id"])
    _must(runs.c.status, row["status"] in _ENDED, f"must be one of {', '.join(_ENDED)}", row["status"])
    simulation = (row["versions"] or {}).get("simulation")
    fits = simulation is None or (isinstance(simulation, dict) and isinstance(simulation.get("boot"), int))
    _must(runs.c.versions, fits, "must name the life of its simulation", simulation)


def _request(row: Mapping[str, Any], run: str) -> None:
    _must(requests.c.id, "/" not in row["id"], "must be the id of a request", row["id"])
    _must(requests.c.run, row["run"] == run, f"must be {run}", row["run"])
    _must(requests.c.state, row["state"] == "finished", "must be finished", row["state"])
    _must(requests.c.finish, row["finish"] is not None, "must not be null", None)
    _must(requests.c.sequences, 1 <= row["sequences"] <= 10_000, "must be from 1 to 10,000", row["sequences"])


def _event(row: Mapping[str, Any], run: str) -> None:
    events, kind, data = request_events.c, row["kind"], row["data"]
    _must(events.kind, kind in _KINDS, "must be a kind of event", kind)
    _must(
        events.sequence_id,
        row["sequence_id"].partition("/")[0] == row["request_id"],
        "must be of its request",
        row["sequence_id"],
    )
    _must(events.terminal, row["terminal"] == (kind == "RequestFinished"), f"does not go with {kind}", row["terminal"])
    for name, types in _DATA.get(kind, {}).items():
        found = None if data is None else data.get(name)
        fits = isinstance(found, types) and (bool in types or not isinstance(found, bool))
        _must(events.data, fits, f"of {kind} must have {name}", found)


def _step(row: Mapping[str, Any], run: str) -> None:
    waiting, blockers = row["waiting_by_reason"], row["blockers"]
    fits = waiting is None or all(name in WAIT_REASONS and type(n) is int for name, n in waiting.items())
    _must(steps.c.waiting_by_reason, fits, "must count requests by reason", waiting)
    _must(steps.c.binding, row["binding"] in WAIT_REASONS, "must be a reason to wait", row["binding"])
    _must(steps.c.blockers, blockers is None or isinstance(blockers.get("reason"), str), "must have a reason", blockers)


def _client(row: Mapping[str, Any], run: str) -> None:
    _must(client_requests.c.run, row["run"] == run, f"must be {run}", row["run"])
    _must(client_requests.c.status, row["status"] in STATUSES, f"must be one of {', '.join(STATUSES)}", row["status"])


def _nothing_more(row: Mapping[str, Any], run: str) -> None:
    """Its columns' own types say it all."""


_CHECKS = {
    runs.name: _run,
    boots.name: _nothing_more,
    settings_changes.name: _nothing_more,
    requests.name: _request,
    client_requests.name: _client,
    request_events.name: _event,
    steps.name: _step,
}


def _must(column: Column[Any], fits: bool, what: str, value: Any) -> None:
    if not fits:
        raise _wrong(column, what, value)


def _refuse(column: Column[Any], what: str, value: Any) -> Any:
    raise _wrong(column, what, value)


def _wrong(column: Column[Any], what: str, value: Any) -> BundleError:
    field = f"{column.table.name}.{column.name}"
    return BundleError(f"{field} {what}, not {str(value)[:60]!r}", field)
