"""UnitCost: a runner whose step takes a fixed time, plus a time for each prefill token. Knows no hardware and no model.

Queueing theory knows servers, not GPUs: with one slot and a fixed step, a request of n output tokens is a job of n steps.
"""

from __future__ import annotations

from scheduler.core.plan import StepOutput, StepPlan
from scheduler.core.request import Request
from scheduler.runners.base import Capacity

CONTEXT_TOKENS = 1 << 20


class UnitCost:
    """step_ns: of each step; prefill_ns: of each prompt token in it."""

    live = False

    def __init__(self, step_ns: int, prefill_ns: int = 0) -> None:
        self._step = step_ns
        self._prefill = prefill_ns

    def capacity(self) -> Capacity:
        """No limits of its own."""
        return Capacity(
            model="unit-cost",
            hardware=None,
            vocab_size=2,
            max_model_len=CONTEXT_TOKENS,
            kv_tokens=0,
            eos_token_ids=(),
            simulated=True,
            device="none",
            dtype="none",
        )

    def allocate(self, blocks: int, block_size: int) -> None:
        """There is nothing to hold."""

    def run(self, plan: StepPlan) -> StepOutput:
        """The same token for everybody."""
        tokens = [1] * (len(plan.decodes) + sum([chunk.last for chunk in plan.chunks]))
        return StepOutput(tokens, self._step + self._prefill * plan.prefill_tokens)

    def release(self, request: Request) -> None:
        """Nothing was kept."""
