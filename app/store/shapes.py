"""The shapes of a run's steps, for whoever fits a cost model to them: what each step held, and how long it took.

How long its sequences were is in no column; it is rebuilt: a request begins at its prompt, an admission says how much of it
was cached, and each slice adds to it. Knows no cost model.
Invariant: a step of which a sequence's length is not known for certain is left out, and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from typing import Any

from sqlalchemy import Connection, func, select

from app.store.errors import QueryError
from app.store.models import boots, request_events, steps
from app.store.packing import unpack_slices
from app.store.step_rows import of_run

COLUMNS = ("decodes", "context", "chunks", "finishing", "ms")
_LIFE = ("blocks_total", "block_size", "runner", "hardware", "model")
Shape = tuple[int, int, list[tuple[int, int]], int, float]


@dataclass(slots=True)
class Length:
    """One request as the engine's memory has it. tokens: prompt and output; computed: of a prefill, so far."""

    tokens: int
    computed: int = 0


def shapes_json(connection: Connection, run_id: str) -> dict[str, Any]:
    """{life, left_out, columns}: of the newest engine life of the run. chunks: (tokens, tokens before) of each."""
    boot = connection.execute(select(func.max(steps.c.boot)).where(of_run(connection, run_id))).scalar()
    if boot is None:
        raise QueryError(f"run {run_id} has no steps on record", "run")
    question = select(*[boots.c[name] for name in _LIFE]).where(boots.c.boot == boot)
    life = connection.execute(question).mappings().first()
    found = list(_shapes(connection, run_id, boot))
    known = [shape for shape in found if shape is not None]
    columns = dict(zip(COLUMNS, map(list, zip(*known, strict=True)), strict=True)) if known else {name: [] for name in COLUMNS}
    return {"life": None if life is None else dict(life), "left_out": len(found) - len(known), "columns": columns}


def _shapes(connection: Connection, run_id: str, boot: int) -> Iterator[Shape | None]:
    """Events and steps in the order in which they happened. None: a step with somebody whose beginning we have not seen."""
    table, lengths = steps.c, dict[int, Length]()
    asked = select(table.seq, table.started_at, table.ended_at, table.host_late_ns, table.slices).order_by(table.seq)
    stepped = connection.execute(asked.where(of_run(connection, run_id), table.boot == boot)).all()
    # Who came before the step that is before the first one may have tokens that we do not see.
    before = connection.execute(select(func.max(table.seq)).where(table.boot == boot, table.seq < stepped[0].seq)).scalar()
    events = request_events.c
    moves = select(events.seq, events.kind, events.data).where(
        events.boot == boot, events.seq > (before or 0), events.seq < stepped[-1].seq,
        events.kind.in_(("RequestQueued", "RequestScheduled")),
    )  # fmt: skip
    rows: Iterator[Any] = merge(connection.execute(moves.order_by(events.seq)), stepped, key=lambda row: row.seq)
    for row in rows:
        if not hasattr(row, "kind"):
            yield _step(row, lengths)
        elif row.kind == "RequestQueued":
            lengths[row.seq] = Length(row.data["prompt_tokens"])
        elif row.data["number"] in lengths:
            lengths[row.data["number"]].computed = row.data["cached_tokens"]


def _step(row: Any, lengths: dict[int, Length]) -> Shape | None:
    """Its shape; the lengths are those after it from here on. A step that ended late tells nothing of the hardware."""
    decodes, context, finishing, known = 0, 0, 0, not row.host_late_ns
    chunks: list[tuple[int, int]] = []
    for piece in unpack_slices(row.slices):
        length = lengths.get(piece.request)
        if length is None:
            known = False
            continue
        if piece.kind == "decode":
            decodes += 1
            context += length.tokens
        else:
            chunks.append((piece.tokens, length.computed))
            length.computed += piece.tokens
            finishing += piece.emitted
        length.tokens += piece.emitted
    return (decodes, context, chunks, finishing, (row.ended_at - row.started_at) / 1e6) if known else None
