"""What a load generator saw: lines of NDJSON in, rows out. Knows no HTTP; the functions are jobs for the Writer.

Invariant: idempotent on (run, client request id): the first line wins, a repeated one is counted, never an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, insert, select

from app.store.errors import QueryError
from app.store.models import client_requests
from app.store.packing import pack_gaps

STATUSES = ("ok", "http_error", "stream_error", "empty_stream", "timeout", "client_cancel", "incomplete", "shed")
FAILED = ("http_error", "stream_error", "empty_stream", "timeout")
_TIMES = ("due_ms", "sent_ms", "first_ms", "last_ms", "end_ms")
_COUNTS = ("n", "http", "prompt_tokens", "output_tokens", "attempts")
_TEXTS = {"tenant": 200, "kind": 200, "error": 2000, "server_id": 64}
_MAX_GAPS = 1_000_000


def row(run: str, line: Mapping[str, Any]) -> dict[str, Any]:
    """A checked row of `client_requests`; raises QueryError naming the field at fault. Unknown fields are ignored."""
    key, status = line.get("id"), line.get("status")
    if not isinstance(key, str) or not 0 < len(key) <= 200:
        raise QueryError("id must be a string of 1 to 200 characters", "id")
    if status not in STATUSES:
        raise QueryError(f"status must be one of {', '.join(STATUSES)}, not {status!r}", "status")
    found: dict[str, Any] = {"run": run, "client_request_id": key, "status": status}
    found |= {name: _number(line.get(name), name) for name in _TIMES}
    found |= {name: _count(line.get(name), name) for name in _COUNTS}
    found |= {name: _text(line.get(name), name, limit) for name, limit in _TEXTS.items()}
    found["estimated"] = bool(line.get("estimated", False))
    found["gaps"] = _gaps(line.get("gaps_ms"))
    return found


def add(connection: Connection, run: str, rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Insert the rows of one run that are new: {"accepted": n, "duplicates": m}."""
    first: dict[str, dict[str, Any]] = {}
    lines = 0
    for each in rows:
        lines += 1
        first.setdefault(each["client_request_id"], dict(each))
    known = _known(connection, run, list(first))
    fresh = [each for key, each in first.items() if key not in known]
    if fresh:
        connection.execute(insert(client_requests), fresh)
    return {"accepted": len(fresh), "duplicates": lines - len(fresh)}


def _known(connection: Connection, run: str, ids: list[str]) -> set[str]:
    table, known = client_requests.c, set[str]()
    for start in range(0, len(ids), 500):
        part = table.client_request_id.in_(ids[start : start + 500])
        known.update(connection.execute(select(table.client_request_id).where(table.run == run, part)).scalars())
    return known


def _number(value: object, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise QueryError(f"{name} must be a finite number or null", name)
    return float(value)


def _count(value: object, name: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise QueryError(f"{name} must be a whole number from 0 to 2^31 - 1, or null", name)
    return value


def _text(value: object, name: str, limit: int) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise QueryError(f"{name} must be a string or null", name)
    return value.encode("utf-8", "replace").decode().replace("\0", "\ufffd")[:limit]


def _gaps(value: object) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > _MAX_GAPS:
        raise QueryError("gaps_ms must be a list of numbers", "gaps_ms")
    try:
        return pack_gaps(value)
    except (TypeError, ValueError, OverflowError):
        raise QueryError("gaps_ms must hold finite numbers that are not negative", "gaps_ms") from None
