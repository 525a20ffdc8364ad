"""A row of `requests` as JSON: ms for people, ISO 8601 for instants, null where undefined. Knows no connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.store.instants import iso
from app.store.open_request import waits_ms
from scheduler.metrics import WAIT_REASONS

_AS_THEY_ARE = (
    "id", "run", "client_request_id", "endpoint", "stream", "model", "tenant", "kind", "priority", "policy", "state", "finish",
    "detail", "status_code", "prompt_tokens", "cached_tokens", "output_tokens", "max_tokens", "sequences", "queue_ms",
    "ttft_ms", "tpot_ms", "e2e_ms", "top_wait", "preemptions", "overtaken", "deadline_ms", "timeout_ms", "boot", "number",
)  # fmt: skip
_PARTS = ("prefill", "decode", "stalled", "preempted")


def request_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """One item of GET /api/requests."""
    finished = row["finished_at"]
    shown = {name: row[name] for name in _AS_THEY_ARE}
    shown["received"] = iso(row["received_wall"])
    shown["finished"] = None if finished is None else iso(row["received_wall"] + finished - row["received_at"])
    shown |= {f"{part}_ms": _ms(row[f"{part}_ns"]) for part in _PARTS}
    shown["waits"] = waits_ms(row)
    shown["ignored_fields"] = row["ignored_fields"] or []
    return shown


def waits_of(item: Mapping[str, Any]) -> dict[str, float | None]:
    """Of an item, by column of an export, in ms: 0 where nothing was waited for; None where that is not known yet."""
    unknown = None if item["state"] == "waiting" else 0.0
    return {f"wait_{reason}_ms": item["waits"].get(reason, unknown) for reason in WAIT_REASONS}


def _ms(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e6
