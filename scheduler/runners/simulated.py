"""SimulatedRunner: pretends to be a GPU. Knows the cost model; never sleeps and computes nothing.

Invariant: `elapsed` is the cost model's figure for the plan, to the nanosecond; the clock decides what that means.
Its output is a fixed sentence, so a request ends by length unless a stop string or id says otherwise.
"""

from __future__ import annotations

from scheduler.core.plan import StepOutput, StepPlan
from scheduler.core.request import Request
from scheduler.runners.base import Capacity
from scheduler.runners.cost_model import CostModel, StepShape
from scheduler.runners.pseudo_tokens import seed_of, token_at
from scheduler.text.byte_tokenizer import EOS_TOKEN_ID, VOCAB_SIZE

CONTEXT_TOKENS = 32_768


class SimulatedRunner:
    """Runs plans on the hardware of `cost`."""

    live = False

    def __init__(self, cost: CostModel) -> None:
        self._cost = cost

    def capacity(self) -> Capacity:
        """What the simulated GPU holds beside the weights."""
        return Capacity(
            model=self._cost.model,
            hardware=self._cost.id,
            vocab_size=VOCAB_SIZE,
            max_model_len=CONTEXT_TOKENS,
            kv_tokens=self._cost.kv_capacity_tokens,
            eos_token_ids=(EOS_TOKEN_ID,),
            simulated=True,
            device="simulated",
            dtype="none",
        )

    def allocate(self, blocks: int, block_size: int) -> None:
        """Simulated memory needs no making."""

    def run(self, plan: StepPlan) -> StepOutput:
        """The model's time and the sentence's next bytes."""
        elapsed = round(self._cost.step_ms(StepShape.of(plan)) * 1e6)
        return StepOutput(tokens=sentence_tokens(plan), elapsed=elapsed)

    def release(self, request: Request) -> None:
        """Nothing was kept."""


def sentence_tokens(plan: StepPlan) -> list[int]:
    """One reproducible token for each sampling row."""
    return [token_at(_seed(row), row.output_tokens) for row in plan.sampling]


def _seed(row: Request) -> int:
    """Zero is a seed too."""
    return seed_of(row.id) if row.params.seed is None else row.params.seed
