"""One request, whole: its row, events, slices step by step, whom it shared steps with, and what the client saw.

Knows no HTTP. Slices are found by unpacking the steps between its admission and its end: nothing is stored twice.
Invariant: the output tokens of a finished sequence are the slices with `emitted` of its steps.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, RowMapping, select, tuple_

from app.store.client_clock import on_our_clock
from app.store.models import client_requests, request_events, requests, steps
from app.store.packing import unpack_gaps, unpack_slices
from app.store.request_json import request_json
from app.store.step_contents import named
from app.store.token_gaps import TokenGaps
from app.store.waited import waited_json

MAX_SLICES = 20_000
MAX_MATES = 20
_UNKNOWN_INSTANT = "web_crash"  # found open at a start: its `at` is when it was found, perhaps on another uptime's clock


def detail_json(connection: Connection, request_id: str) -> dict[str, Any] | None:
    """GET /api/requests/{id}; None when there is no such request."""
    found = connection.execute(select(requests).where(requests.c.id == request_id)).mappings().first()
    if found is None:
        return None
    row = dict(found)
    question = select(request_events).where(request_events.c.request_id == request_id)
    events = sorted(connection.execute(question).mappings(), key=_when)
    gaps = TokenGaps(row["received_at"])
    slices, mates = _slices(connection, events, row, gaps)
    open_for = None if row["state"] == "finished" else (time.monotonic_ns() - row["received_at"]) / 1e6
    return request_json(row) | {
        "age_ms": open_for,
        "events": [_event(event, row["received_at"]) for event in events],
        "waited": waited_json(connection, events, row["received_at"]),
        "slices": slices,
        "gaps": gaps.json(connection),
        "batch_mates": mates,
        "previous": _neighbour(connection, row, later=False),
        "next": _neighbour(connection, row, later=True),
        "client": _client(connection, row),
        "prompt_text": row["prompt_text"],
        "output_text": row["output_text"],
        "prompt_hash": row["prompt_hash"],
    }


def _when(event: RowMapping) -> tuple[bool, int, int, int]:
    """Order of events: by instant, the same for all boots of one uptime; an end whose instant is unknown is last."""
    unknown = (event["data"] or {}).get("detail") == _UNKNOWN_INSTANT
    return unknown, event["at"], event["boot"], event["seq"]


def _event(event: RowMapping, received_at: int) -> dict[str, Any]:
    data = event["data"] or {}
    known = data.get("detail") != _UNKNOWN_INSTANT
    return {
        "boot": event["boot"],
        "seq": event["seq"],
        "t_ms": (event["at"] - received_at) / 1e6 if known else None,
        "kind": event["kind"],
        "sequence": event["sequence_id"],
        "data": data,
    }


def _spans(events: list[RowMapping]) -> dict[int, tuple[set[int], int, int | None]]:
    """boot → (numbers, seq of the first admission, seq of the last end or None)."""
    spans: dict[int, tuple[set[int], int, int | None]] = {}
    for event in events:
        boot, seq, kind = event["boot"], event["seq"], event["kind"]
        if kind == "RequestScheduled":
            numbers, first, _ = spans.get(boot, (set(), seq, None))
            spans[boot] = (numbers | {event["data"]["number"]}, min(first, seq), None)
        elif kind == "RequestFinished" and boot in spans:
            numbers, first, last = spans[boot]
            spans[boot] = (numbers, first, seq if last is None else max(last, seq))
    return spans


def _slices(
    connection: Connection, events: list[RowMapping], row: Mapping[str, Any], gaps: TokenGaps
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    shown: dict[str, Any] = {
        name: [] for name in ("boot", "seq", "step", "t_ms", "ms", "tokens", "kind", "emitted", "batch", "step_tokens")
    }
    mates: Counter[tuple[int, int]] = Counter()
    received_at, finished_at = row["received_at"], row["finished_at"]
    for boot, (numbers, first, last) in _spans(events).items():
        for step in _steps(connection, boot, first, last, finished_at):
            batch = unpack_slices(step["slices"])
            own = [piece for piece in batch if piece.request in numbers]
            for piece in own:
                for name in ("boot", "seq", "step"):
                    shown[name].append(step[name])
                shown["t_ms"].append((step["started_at"] - received_at) / 1e6)
                shown["ms"].append((step["ended_at"] - step["started_at"]) / 1e6)
                shown["tokens"].append(piece.tokens)
                shown["kind"].append(piece.kind)
                shown["emitted"].append(piece.emitted)
                shown["batch"].append(len(batch))
                shown["step_tokens"].append(step["prefill_tokens"] + step["decode_tokens"])
                if piece.emitted:
                    gaps.token(step, piece.request)
            if own:
                mates.update((boot, piece.request) for piece in batch if piece.request not in numbers)
    return shown, _mates(connection, mates)


def _steps(connection: Connection, boot: int, first: int, last: int | None, until: int | None) -> list[RowMapping]:
    """The end of a request is published before the StepCompleted of its last step: one more step than its events span.

    `last` None: it has not ended, or not by this engine life.
    """
    table = steps.c
    question = select(steps).where(table.boot == boot, table.seq > first).order_by(table.seq)
    if last is None:
        question = question if until is None else question.where(table.started_at <= until)
        return list(connection.execute(question.limit(MAX_SLICES)).mappings())
    within = list(connection.execute(question.where(table.seq < last).limit(MAX_SLICES)).mappings())
    return within + list(connection.execute(question.where(table.seq > last).limit(1)).mappings())


def _mates(connection: Connection, mates: Counter[tuple[int, int]]) -> list[dict[str, Any]]:
    """Those who shared most steps with it."""
    found = []
    for (boot, number), shared in mates.most_common(MAX_MATES):
        known = named(connection, boot, [number])[number]
        id = known["id"] and known["id"].partition("/")[0]
        found.append({"id": id, "tenant": known["tenant"], "boot": boot, "number": number, "steps": shared})
    return found


def _client(connection: Connection, row: Mapping[str, Any]) -> dict[str, Any] | None:
    if row["run"] is None or row["client_request_id"] is None:
        return None
    table = client_requests.c
    question = select(client_requests).where(table.run == row["run"], table.client_request_id == row["client_request_id"])
    seen = connection.execute(question).mappings().first()
    return None if seen is None else client_json(dict(seen)) | {"clock": on_our_clock(connection, row, dict(seen))}


def _neighbour(connection: Connection, row: Mapping[str, Any], *, later: bool) -> str | None:
    """The id of the request of the same run that arrived next, or before; of any run, when it belongs to none."""
    table = requests.c
    key, own = tuple_(table.received_wall, table.id), tuple_(row["received_wall"], row["id"])
    order = (table.received_wall, table.id) if later else (table.received_wall.desc(), table.id.desc())
    question = select(table.id).where(key > own if later else key < own).order_by(*order).limit(1)
    if row["run"] is not None:
        question = question.where(table.run == row["run"])
    found: str | None = connection.execute(question).scalar()
    return found


def client_json(seen: Mapping[str, Any]) -> dict[str, Any]:
    """A row of `client_requests` with its gaps unpacked and the client's own figures."""
    shown = {name: value for name, value in seen.items() if name not in ("gaps", "run")}
    return shown | {"gaps_ms": unpack_gaps(seen["gaps"])} | client_figures(seen)


def client_figures(seen: Mapping[str, Any]) -> dict[str, float | None]:
    """TTFT from send and from due, E2E to the last token, TPOT, lateness, as the client measured them; ms."""
    sent, first, last, due, tokens = (seen[name] for name in ("sent_ms", "first_ms", "last_ms", "due_ms", "output_tokens"))
    spread = _less(last, first)
    return {
        "ttft_ms": _less(first, sent),
        "ttft_due_ms": _less(first, due),
        "e2e_ms": _less(last, sent),
        "tpot_ms": spread / (tokens - 1) if spread is not None and tokens is not None and tokens > 1 else None,
        "lateness_ms": _less(sent, due),
    }


def _less(later: float | None, earlier: float | None) -> float | None:
    return None if later is None or earlier is None else later - earlier
