"""A request as text: a line of a table, a row of a CSV file, a page. Knows the API's JSON of a request and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from app.cli.terminal import NONE, number, pairs, table
from app.cli.waits_text import held_by, waits_text
from app.percents import percents

COLUMNS = (
    ("received", "received"), ("id", "id"), ("state", "state"), ("tenant", "tenant"), ("kind", "kind"), ("priority", "prio"),
    ("prompt_tokens", "prompt"), ("output_tokens", "output"), ("queue_ms", "queue ms"), ("ttft_ms", "ttft ms"),
    ("e2e_ms", "e2e ms"), ("top_wait", "waited for"),
)  # fmt: skip
MOST_SLICES = 40


def table_row(request: Mapping[str, Any]) -> dict[str, Any]:
    """The cells of COLUMNS: a finished request shows how it ended."""
    state = request["finish"] or request["state"]
    shown = f"{state}: {request['detail']}" if request.get("detail") else state
    return {**request, "received": (request["received"] or "")[11:23], "state": shown}


def request_text(request: Mapping[str, Any], *, every: bool = False) -> str:
    """All of one request, for reading. every: of stretches and slices none is left out."""
    skipped = (
        "waits",
        "waited",
        "events",
        "slices",
        "age_ms",
        "gaps",
        "batch_mates",
        "previous",
        "next",
        "client",
        "prompt_text",
        "output_text",
        "prompt_hash",
        "ignored_fields",
        "queue",
    )
    parts = [pairs({name: value for name, value in request.items() if name not in skipped and value is not None})]
    if request.get("queue"):
        parts.append(_place(request["queue"]))
    if request.get("ignored_fields"):
        parts.append("ignored fields: " + ", ".join(request["ignored_fields"]))
    parts.append(_time(request))
    parts.append(waits_text(request, every=every))
    parts.append(_events(request.get("events") or []))
    parts.append(_slices(request.get("slices") or {}, None if every else MOST_SLICES))
    if request.get("client"):
        seen = {name: value for name, value in request["client"].items() if name != "gaps_ms" and value is not None}
        parts.append("As the load generator saw it\n" + pairs(seen))
    return "\n\n".join(part for part in parts if part)


def _place(queue: Mapping[str, Any]) -> str:
    """Where it stands in the queue."""
    start, exact = queue["estimated_start_ms"], "" if queue["exact"] else " by arrival; the policy may let others pass"
    when = "" if start is None else f", starts in about {number(start)} ms"
    return f"place in the queue: {queue['position']}{exact}{when}"


def _time(request: Mapping[str, Any]) -> str:
    """Where the time went, in order: waits by reason, then the four other parts."""
    rows = [{"part": f"wait: {reason}", "ms": ms} for reason, ms in request["waits"].items()]
    rows += [{"part": part, "ms": request[f"{part}_ms"]} for part in ("prefill", "decode", "stalled", "preempted")]
    whole = request["e2e_ms"]
    known = [row for row in rows if row["ms"]]
    shares = percents([row["ms"] / whole for row in known]) if whole else [NONE] * len(known)
    for row, share in zip(known, shares, strict=True):
        row["share"] = f"{share} %" if whole else NONE
    total = f"E2E {number(whole)} ms = wait + prefill + decode + stalled + preempted"
    return total + ("\n" + table(known, [("part", "part"), ("ms", "ms"), ("share", "share")]) if known else "")


def _events(events: list[Mapping[str, Any]]) -> str:
    rows = [{**event, "data": _terse(event["data"])} for event in events]
    return "Events\n" + table(rows, [("t_ms", "at ms"), ("kind", "event"), ("data", "")]) if rows else ""


def _terse(data: Mapping[str, Any]) -> str:
    shown = {name: value for name, value in data.items() if value is not None and name not in ("parts", "id", "received_at")}
    return ", ".join(f"{name}={_value(name, value)}" for name, value in shown.items())


def _value(name: str, value: object) -> object:
    if name == "blockers" and isinstance(value, dict):
        return held_by(value)
    return json.dumps(value) if isinstance(value, list | dict) else value


def _slices(columns: Mapping[str, list[Any]], most: int | None) -> str:
    """The first slices; a long decode says little more. most: None for all."""
    count = len(columns.get("step", []))
    if not count:
        return ""
    names = [("step", "step"), ("t_ms", "at ms"), ("ms", "ms"), ("kind", "kind"), ("tokens", "tokens"), ("batch", "batch")]
    rows = [{name: columns[name][i] for name, _ in names} for i in range(count if most is None else min(count, most))]
    title = "Slices" if len(rows) == count else f"Slices ({len(rows)} of {count}, --all)"
    return f"{title}\n{table(rows, names)}"
