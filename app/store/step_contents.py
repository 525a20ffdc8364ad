"""One step in full: who was picked, who was not, and why. Knows the tables of steps and events, no HTTP.

Who was picked is in the step: its slices, and what happened since the step before it to those of the two steps. Why the
others were not is its binding constraint and who held it, from this step or the last that said so. Who is next is told
where a step says it (a head that lacks KV blocks); the order of the others is the policy's and is not recorded.
Invariant: the tokens of `chunks` and `decodes` sum to the step's prefill and decode tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, select

from app.store.models import request_events, steps
from app.store.packing import unpack_slices

SHOWN = 64  # of each list
_PIECE = 500  # names asked for at once
_HAPPENED = {"RequestScheduled": "admitted", "RequestPreempted": "preempted", "RequestFinished": "finished"}
_TOLD = ("slot", "cached_tokens", "resumed", "overtaken", "computed_tokens_lost", "blocks_freed", "reason", "output_tokens")


def step_json(connection: Connection, boot: int, seq: int) -> dict[str, Any] | None:
    """GET /api/steps/{boot}/{seq}; None when there is no such step. Of each list at most 64, with their number."""
    known = abs(boot) < 1 << 31 and seq < 1 << 63  # wider numbers are in no row, and not every database takes them
    row = connection.execute(select(steps).where(_at(boot, seq))).mappings().first() if known else None
    if row is None:
        return None
    before = _newest(connection, steps.c.boot == boot, steps.c.seq < seq)
    batch = unpack_slices(row["slices"])
    blockers = _blockers(connection, row)
    head = (blockers or {}).get("head")
    numbers = {piece.request for piece in batch}
    earlier = set() if before is None else {piece.request for piece in unpack_slices(before["slices"])}
    names = named(connection, boot, numbers | earlier | ({head} if head else set()))
    chunks = [piece for piece in batch if piece.kind == "prefill"]
    decodes = [piece for piece in batch if piece.kind == "decode"]
    copied = ("boot", "seq", "step", "token_budget", "prefill_tokens", "decode_tokens", "running", "binding", "waiting")
    return {
        **{name: row[name] for name in copied},
        "ms": (row["ended_at"] - row["started_at"]) / 1e6,
        "waiting_by_reason": row["waiting_by_reason"] or {},
        "blockers": blockers,
        "next": names[head] if head else None,
        "chunks": [{**names[each.request], "tokens": each.tokens, "emitted": each.emitted} for each in chunks[:SHOWN]],
        "decodes": [names[each.request] for each in decodes[:SHOWN]],
        "n_chunks": len(chunks),
        "n_decodes": len(decodes),
        **_happened(connection, names, boot, 0 if before is None else before["seq"], seq),
    }


def _at(boot: int, seq: int) -> ColumnElement[bool]:
    return and_(steps.c.boot == boot, steps.c.seq == seq)


def _newest(connection: Connection, *where: ColumnElement[bool]) -> RowMapping | None:
    return connection.execute(select(steps).where(*where).order_by(steps.c.seq.desc()).limit(1)).mappings().first()


def _blockers(connection: Connection, row: RowMapping) -> dict[str, Any] | None:
    """Its set, or the one that still stands; None when the last one was about another constraint."""
    told = _newest(connection, steps.c.boot == row["boot"], steps.c.seq <= row["seq"], steps.c.blockers.is_not(None))
    found: dict[str, Any] | None = None if told is None else told["blockers"]
    return found if found is not None and found["reason"] == row["binding"] else None


def _happened(
    connection: Connection, names: Mapping[int, dict[str, Any]], boot: int, after: int, until: int
) -> dict[str, list[dict[str, Any]]]:
    """Who was admitted, preempted and finished between two steps, by their events; of each at most 64."""
    table, found = request_events.c, {name: list[dict[str, Any]]() for name in _HAPPENED.values()}
    ids = sorted({each["id"].partition("/")[0] for each in names.values() if each["id"]})
    for start in range(0, len(ids), _PIECE):
        question = select(table.kind, table.data).where(
            table.request_id.in_(ids[start : start + _PIECE]), table.boot == boot, table.seq > after, table.seq < until
        )
        for event in connection.execute(question).mappings():
            rows, data = found.get(_HAPPENED.get(event["kind"], "")), event["data"] or {}
            if rows is not None and len(rows) < SHOWN:
                rows.append({**names[data["number"]], **{name: data[name] for name in _TOLD if name in data}})
    return found


def named(connection: Connection, boot: int, numbers: Iterable[int]) -> dict[int, dict[str, Any]]:
    """number → {number, id, tenant}; id and tenant None where the records do not have it."""
    table, wanted = request_events.c, sorted(set(numbers))
    found: dict[int, dict[str, Any]] = {number: {"number": number, "id": None, "tenant": None} for number in wanted}
    for start in range(0, len(wanted), _PIECE):
        question = select(table.seq, table.sequence_id, table.data).where(
            table.kind == "RequestQueued", table.boot == boot, table.seq.in_(wanted[start : start + _PIECE])
        )
        for row in connection.execute(question).mappings():
            found[row["seq"]] = {"number": row["seq"], "id": row["sequence_id"], "tenant": (row["data"] or {}).get("tenant")}
    return found
