"""Gaps between the tokens of a request, and what the steps of its longest ones did beside it. Knows steps, no HTTP.

A token exists at the end of the step that made it, so a gap is from step end to step end. It is told by the step that
ends it: who prefilled there shared the forward pass, and made it longer. Where a gap spans several steps it had no part
in those between: it was preempted, or got no tokens.
Invariant: one gap fewer than tokens for each sequence and engine life; what an engine took over is no gap of its own.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, RowMapping

from app.store.packing import unpack_slices
from app.store.step_contents import named
from scheduler.metrics import percentile

WORST = 5
MOST_PREFILLS = 5


@dataclass(frozen=True, slots=True)
class Gap:
    """From one token to the next of the sequence `number`; ns."""

    length: int
    number: int
    token: int  # the how-manieth token of its engine life ends it
    step: RowMapping
    steps: int  # how many steps it spans; 1: it had a token in each


@dataclass(slots=True)
class TokenGaps:
    """Fed the steps in order; json() at the end."""

    received_at: int
    gaps: list[Gap] = field(default_factory=list)
    _last: dict[tuple[int, int], tuple[int, RowMapping]] = field(default_factory=dict)

    def token(self, step: RowMapping, number: int) -> None:
        """`step` made a token of `number`."""
        key = step["boot"], number
        count, before = self._last.get(key, (0, None))
        if before is not None:
            length = step["ended_at"] - before["ended_at"]
            self.gaps.append(Gap(length, number, count + 1, step, step["step"] - before["step"]))
        self._last[key] = (count + 1, step)

    def json(self, connection: Connection) -> dict[str, Any]:
        """{n, p50_ms, p95_ms, ms, t_ms, step: columns by time, worst: the five longest with what their step did}."""
        lengths = sorted(gap.length / 1e6 for gap in self.gaps)
        return {
            "n": len(lengths),
            "p50_ms": percentile(lengths, 50),
            "p95_ms": percentile(lengths, 95),
            "ms": [gap.length / 1e6 for gap in self.gaps],
            "t_ms": [(gap.step["ended_at"] - self.received_at) / 1e6 for gap in self.gaps],
            "step": [gap.step["step"] for gap in self.gaps],
            "worst": [self._worst(connection, gap) for gap in heapq.nlargest(WORST, self.gaps, key=_length)],
        }

    def _worst(self, connection: Connection, gap: Gap) -> dict[str, Any]:
        step = gap.step
        batch = unpack_slices(step["slices"])
        others = [piece for piece in batch if piece.kind == "prefill" and piece.request != gap.number]
        most = heapq.nlargest(MOST_PREFILLS, others, key=lambda piece: piece.tokens)
        names = named(connection, step["boot"], [piece.request for piece in most])
        return {
            "ms": gap.length / 1e6,
            "t_ms": (step["ended_at"] - self.received_at) / 1e6,
            "token": gap.token,
            "boot": step["boot"],
            "seq": step["seq"],
            "step": step["step"],
            "steps": gap.steps,
            "step_ms": (step["ended_at"] - step["started_at"]) / 1e6,
            "prefill_tokens": sum(piece.tokens for piece in others),
            "decodes": sum(piece.kind == "decode" for piece in batch),
            "prefills": [{**names[piece.request], "tokens": piece.tokens} for piece in most],
            "more_prefills": len(others) - len(most),
        }


def _length(gap: Gap) -> int:
    return gap.length
