"""What a step costs: the formula, its tables, and the sums of a plan that it depends on. Reads no file.

step_ms = body(T) + head(S) + attention(n, ctx, G, P) + overhead, where
  T    all tokens of the step                              S    sequences whose last token is computed
  n    decoding sequences                                  ctx  tokens in their KV caches
  G    sum over chunks of 4 · attn_width · c · (p + c/2) / 1e9, floating-point work of prefill attention
  P    sum of p, with c the chunk's tokens and p those of its prompt that were computed before
body and head are piecewise linear tables (beyond the last point in proportion); attention is linear, with its own
coefficients for steps of only decodes, only prefills, and both.
Invariant: a step of equal sums costs equally, to the last bit; an empty one costs nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from scheduler.core.plan import StepPlan

COEFFICIENTS = (
    "const_ms",
    "per_decode_seq_ms",
    "per_decode_ctx_token_ms",
    "per_prefill_gflop_ms",
    "per_prefill_prior_token_ms",
)


class StepShape(NamedTuple):
    """The sums that a step's cost depends on. chunks: (tokens, tokens computed before) of each prefill slice."""

    decodes: int
    context: int
    chunks: tuple[tuple[int, int], ...]
    finishing: int

    @classmethod
    def of(cls, plan: StepPlan) -> StepShape:
        """The shape of a plan."""
        chunks = tuple([(chunk.tokens, chunk.start) for chunk in plan.chunks])
        return cls(len(plan.decodes), plan.context, chunks, sum([chunk.last for chunk in plan.chunks]))


@dataclass(frozen=True, slots=True)
class Table:
    """A piecewise linear function through points with ascending `at`; constant before, in proportion beyond."""

    at: tuple[float, ...]
    ms: tuple[float, ...]

    def __call__(self, x: float) -> float:
        """Interpolate, ms."""
        at, ms = self.at, self.ms
        if x <= at[0]:
            return ms[0]
        if x >= at[-1]:
            return ms[-1] * x / at[-1]
        i = bisect_right(at, x)
        return ms[i - 1] + (ms[i] - ms[i - 1]) * (x - at[i - 1]) / (at[i] - at[i - 1])


@dataclass(frozen=True, slots=True)
class CostModel:
    """One GPU × model pair. kv_capacity_tokens: what its memory holds beside the weights."""

    id: str
    gpu: str
    model: str
    kv_capacity_tokens: int
    attn_width: int
    body: Table
    head: Table
    attention: dict[str, tuple[float, ...]]
    overhead_ms: float

    def step_ms(self, shape: StepShape) -> float:
        """Milliseconds that a step of this shape takes; 0 for an empty one."""
        prefill_tokens = sum([tokens for tokens, _ in shape.chunks])
        if shape.decodes + prefill_tokens == 0:
            return 0.0
        regime = regime_of(shape)
        gflop = prefill_gflop(self.attn_width, shape.chunks)
        prior = sum([before for _, before in shape.chunks])
        _, _, per_context, per_gflop, per_prior = self.attention[regime]
        fixed = self.fixed_ms(regime, shape.decodes, prefill_tokens, shape.finishing)
        return fixed + per_context * shape.context + per_gflop * gflop + per_prior * prior

    def fixed_ms(self, regime: str, decodes: int, prefill_tokens: int, finishing: int) -> float:
        """What a step costs by its counts alone, whatever the lengths of its sequences."""
        const, per_seq = self.attention[regime][:2]
        heads = decodes + finishing
        head = self.head(heads) if heads else 0.0
        return self.body(decodes + prefill_tokens) + head + const + per_seq * decodes + self.overhead_ms

    def decode_ms(self, decodes: int) -> tuple[float, float]:
        """(fixed ms, ms a context token) of steps of `decodes` decodes and nothing else: what most steps are."""
        return self.fixed_ms("decode", decodes, 0, 0), self.attention["decode"][2]

    def step_ns(self, decodes: int, context: int, chunks: Sequence[tuple[int, int]]) -> float:
        """The same as a StepCost, for who plans a step (core/budget.py): all its prefills are taken to end."""
        return self.step_ms(StepShape(decodes, context, tuple(chunks), len(chunks))) * 1e6


def regime_of(shape: StepShape) -> str:
    """Which attention coefficients count."""
    return "decode" if not shape.chunks else "mixed" if shape.decodes else "prefill"


def prefill_gflop(width: int, chunks: Iterable[tuple[int, int]]) -> float:
    """G: floating-point work of prefill attention, 10^9 operations."""
    return sum([4 * width * tokens * (prior + tokens / 2) for tokens, prior in chunks]) / 1e9


def as_json(model: CostModel) -> dict[str, Any]:
    """The model as its file has it: what cost_model.load reads."""
    named = {name: getattr(model, name) for name in ("id", "gpu", "model", "kv_capacity_tokens", "attn_width", "overhead_ms")}
    attention = {name: dict(zip(COEFFICIENTS, row, strict=True)) for name, row in model.attention.items()}
    body = {"tokens": list(model.body.at), "ms": list(model.body.ms)}
    head = {"seqs": list(model.head.at), "ms": list(model.head.ms)}
    return {**named, "body_ms": body, "head_ms": head, "attention": attention}
