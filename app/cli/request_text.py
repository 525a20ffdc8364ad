"""A request as text: a line of a table, a row of a CSV file, a page. Knows the API's JSON of a request and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from app.cli.terminal import NONE, number, pairs, table

COLUMNS = (
    ("received", "received"), ("id", "id"), ("state", "state"), ("tenant", "tenant"), ("kind", "kind"), ("priority", "prio"),
    ("prompt_tokens", "prompt"), ("output_tokens", "output"), ("queue_ms", "queue ms"), ("ttft_ms", "ttft ms"),
    ("e2e_ms", "e2e ms"), ("top_wait", "waited for"),
)  # fmt: skip
MOST_SLICES = 40
MOST_STRETCHES = 40


def table_row(request: Mapping[str, Any]) -> dict[str, Any]:
    """The cells of COLUMNS: a finished request shows how it ended."""
    state = request["finish"] or request["state"]
    shown = f"{state}: {request['detail']}" if request.get("detail") else state
    return {**request, "received": (request["received"] or "")[11:23], "state": shown}


def request_text(request: Mapping[str, Any]) -> str:
    """All of one request, for reading."""
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
    parts.append(_waited(request.get("waited") or []))
    parts.append(_events(request.get("events") or []))
    parts.append(_slices(request.get("slices") or {}))
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
    for row in rows:
        row["share"] = f"{100 * row['ms'] / whole:.0f} %" if whole and row["ms"] is not None else NONE
    known = [row for row in rows if row["ms"]]
    total = f"E2E {number(whole)} ms = wait + prefill + decode + stalled + preempted"
    return total + ("\n" + table(known, [("part", "part"), ("ms", "ms"), ("share", "share")]) if known else "")


def _waited(stretches: list[Mapping[str, Any]]) -> str:
    """What it waited for, and who held that meanwhile."""
    rows = [
        {"from": one["from_ms"], "to": one["to_ms"], "for": one["reason"], "held": held_by(one["blockers"])}
        for one in stretches[:MOST_STRETCHES]
    ]
    if not rows:
        return ""
    more = len(stretches) - len(rows)
    tail = f"\n… and {more} more (--json has them all)" if more else ""
    return "Waits\n" + table(rows, [("from", "from ms"), ("to", "to ms"), ("for", "waited for"), ("held", "held by")]) + tail


def held_by(blockers: Mapping[str, Any] | None) -> str:
    """A set in one line: `12 of 16 slots: ann 9, bob 3`."""
    if blockers is None:
        return ""
    holders, unit, limit = blockers["holders"], blockers["unit"], blockers["limit"]
    names = [f"{one['tenant']} {one['amount']}" for one in holders]
    if blockers["rest"]:
        names.append(f"others {blockers['rest']}")
    total = sum(one["amount"] for one in holders) + blockers["rest"]
    if unit == "requests":
        running = f"{names[0]} of {limit} running" if limit else f"{names[0]} running"
        most = blockers["max_tokens"]
        return running + (f", {blockers['tokens']} of {most} tokens (it needs {blockers['needed']})" if most else "")
    text = f"{total} of {limit} {unit}: {', '.join(names)}"
    if unit == "blocks":
        kept = f", {blockers['kept']} of them kept" if blockers["kept"] else ""
        text += f"; needed {blockers['needed']}, {blockers['free']} free{kept}"
    return text


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


def _slices(columns: Mapping[str, list[Any]]) -> str:
    """The first slices; a long decode says little more."""
    count = len(columns.get("step", []))
    if not count:
        return ""
    names = [("step", "step"), ("t_ms", "at ms"), ("ms", "ms"), ("kind", "kind"), ("tokens", "tokens"), ("batch", "batch")]
    rows = [{name: columns[name][i] for name, _ in names} for i in range(min(count, MOST_SLICES))]
    more = f"\n… and {count - MOST_SLICES} more (--json has them all)" if count > MOST_SLICES else ""
    return "Slices\n" + table(rows, names) + more
