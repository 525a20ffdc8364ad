"""Instants between people and rows: ISO 8601 UTC outside, integer ns since the epoch inside. Asks no clock."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal

from app.store.errors import QueryError

_EPOCH_MS = re.compile(r"[0-9]{1,15}(\.[0-9]{1,6})?")
_LIMIT_NS = 4_102_444_800 * 10**9  # the year 2100


def iso(wall: int | None) -> str | None:
    """2026-11-29T14:03:22.118000Z; None stays None."""
    if wall is None:
        return None
    seconds, ns = divmod(wall, 10**9)
    stamp = datetime.fromtimestamp(seconds, UTC).replace(microsecond=ns // 1000)
    return stamp.isoformat(timespec="microseconds").replace("+00:00", "Z")


def wall_ns(text: str, param: str) -> int:
    """An ISO 8601 instant (no zone: UTC) or ms since the epoch; raises QueryError naming `param`."""
    ns = int(Decimal(text) * 10**6) if _EPOCH_MS.fullmatch(text) else _from_iso(text, param)
    if not 0 <= ns < _LIMIT_NS:
        raise QueryError(f"{param} is out of range: {text!r}", param)
    return ns


def _from_iso(text: str, param: str) -> int:
    try:
        stamp = datetime.fromisoformat(text)
    except ValueError:
        raise QueryError(f"{param} must be an ISO 8601 instant or ms since the epoch, not {text!r}", param) from None
    if stamp.tzinfo is None:
        stamp = stamp.replace(tzinfo=UTC)
    delta = stamp - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 10**9 + delta.microseconds * 1000
