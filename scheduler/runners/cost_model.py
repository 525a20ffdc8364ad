"""CostModel: how long one step takes on hardware that is not here. Knows plans only as five sums.

step_ms = body(T) + head(S) + attention(n, ctx, G, P) + overhead, where
  T    all tokens of the step                              S    sequences whose last token is computed
  n    decoding sequences                                  ctx  tokens in their KV caches
  G    sum over chunks of 4 · attn_width · c · (p + c/2) / 1e9, floating-point work of prefill attention
  P    sum of p, with c the chunk's tokens and p those of its prompt that were computed before
body and head are piecewise linear tables (beyond the last point in proportion); attention is linear, with its own
coefficients for steps of only decodes, only prefills, and both. Tables are fitted to measured kernels; each file names
its source.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from scheduler.core.plan import StepPlan
from scheduler.errors import SettingsError

DEFAULT_HARDWARE = "h100-llama-3.1-8b-tp1-bf16"
FOLDER = Path(__file__).parent / "cost_models"
_COEFFICIENTS = (
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
        chunks = tuple((chunk.tokens, chunk.start) for chunk in plan.chunks)
        return cls(len(plan.decodes), plan.context, chunks, sum(chunk.last for chunk in plan.chunks))


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
        prefill_tokens = sum(tokens for tokens, _ in shape.chunks)
        if shape.decodes + prefill_tokens == 0:
            return 0.0
        regime = "decode" if not shape.chunks else "mixed" if shape.decodes else "prefill"
        gflop = sum(4 * self.attn_width * tokens * (prior + tokens / 2) for tokens, prior in shape.chunks) / 1e9
        prior = sum(before for _, before in shape.chunks)
        const, per_seq, per_context, per_gflop, per_prior = self.attention[regime]
        attention = const + per_seq * shape.decodes + per_context * shape.context + per_gflop * gflop + per_prior * prior
        heads = shape.decodes + shape.finishing
        return self.body(shape.decodes + prefill_tokens) + (self.head(heads) if heads else 0.0) + attention + self.overhead_ms


def available() -> list[str]:
    """Ids of the shipped cost models."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def load(name: str) -> CostModel:
    """A shipped model by id, or a JSON file by path; raises SettingsError naming `hardware`."""
    path = FOLDER / f"{name}.json" if name in available() else Path(name)
    if not path.is_file():
        raise SettingsError(f"unknown hardware {name!r}; known: {', '.join(available())}", "hardware")
    try:
        return _parse(json.loads(path.read_text(encoding="utf-8")))
    except (KeyError, TypeError, ValueError) as error:
        raise SettingsError(f"{path} is not a cost model: {error!r}", "hardware") from error


def _parse(raw: dict[str, Any]) -> CostModel:
    attention = {name: tuple(float(row[c]) for c in _COEFFICIENTS) for name, row in raw["attention"].items()}
    if set(attention) != {"decode", "prefill", "mixed"}:
        raise ValueError("attention needs decode, prefill and mixed")
    return CostModel(
        id=raw["id"],
        gpu=raw["gpu"],
        model=raw["model"],
        kv_capacity_tokens=int(raw["kv_capacity_tokens"]),
        attn_width=int(raw["attn_width"]),
        body=Table(tuple(raw["body_ms"]["tokens"]), tuple(raw["body_ms"]["ms"])),
        head=Table(tuple(raw["head_ms"]["seqs"]), tuple(raw["head_ms"]["ms"])),
        attention=attention,
        overhead_ms=float(raw["overhead_ms"]),
    )
