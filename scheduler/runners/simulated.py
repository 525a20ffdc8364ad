"""SimulatedRunner: pretends to be a GPU. Knows the cost model; never sleeps and computes nothing.

Invariant: `elapsed` is the cost model's figure for the plan, to the nanosecond; the clock decides what that means.
Its output is a fixed sentence, so a request ends by length unless a stop string or id says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from scheduler.core.plan import StepOutput, StepPlan
from scheduler.core.request import Request
from scheduler.runners.base import Capacity, Runner
from scheduler.runners.pseudo_tokens import seed_of, token_at
from scheduler.runners.step_cost import CostModel, StepShape
from scheduler.text.byte_tokenizer import EOS_TOKEN_ID, VOCAB_SIZE

CONTEXT_TOKENS = 32_768
SILENT_TOKEN = 0xFFFF_FFFF  # no prompt holds it
NOTHING: Mapping[int, str] = MappingProxyType({})  # no row errs, and none is stopped by the runner


class SimulatedRunner:
    """Runs plans on the hardware of `cost`. `silent`: nobody reads the output, every token is SILENT_TOKEN."""

    live = False

    def __init__(self, cost: CostModel, *, silent: bool = False) -> None:
        self.cost = cost
        self._decode: dict[int, tuple[float, float]] = {}  # by rows: the parts of a step of decodes alone
        self._silence: dict[int, list[int]] | None = {} if silent else None  # by rows: one list serves every step of them

    def capacity(self) -> Capacity:
        """What the simulated GPU holds beside the weights."""
        return Capacity(
            model=self.cost.model,
            hardware=self.cost.id,
            vocab_size=VOCAB_SIZE,
            max_model_len=CONTEXT_TOKENS,
            kv_tokens=self.cost.kv_capacity_tokens,
            eos_token_ids=(EOS_TOKEN_ID,),
            simulated=True,
            device="simulated",
            dtype="none",
        )

    def allocate(self, blocks: int, block_size: int) -> None:
        """Simulated memory needs no making."""

    def run(self, plan: StepPlan) -> StepOutput:
        """The model's time and the sentence's next bytes."""
        return StepOutput(self._tokens(plan), self._elapsed(plan), NOTHING, NOTHING)

    def _elapsed(self, plan: StepPlan) -> int:
        if plan.chunks or not plan.decodes:
            return round(self.cost.step_ms(StepShape.of(plan)) * 1e6)
        rows = len(plan.decodes)
        known = self._decode.get(rows)
        if known is None:
            known = self._decode[rows] = self.cost.decode_ms(rows)
        return round((known[0] + known[1] * plan.context) * 1e6)

    def _tokens(self, plan: StepPlan) -> list[int]:
        if self._silence is None:
            return sentence_tokens(plan)
        rows = len(plan.decodes) + len(plan.chunks)
        tokens = self._silence.get(rows)
        if tokens is None:
            tokens = self._silence[rows] = [SILENT_TOKEN] * rows
        return tokens

    def release(self, request: Request) -> None:
        """Nothing was kept."""


def cost_of(runner: Runner) -> CostModel | None:
    """What a step of `runner` takes, where that is known beforehand."""
    return runner.cost if isinstance(runner, SimulatedRunner) else None


def sentence_tokens(plan: StepPlan) -> list[int]:
    """One reproducible token for each sampling row."""
    return [token_at(_seed(row), row.output_tokens) for row in plan.sampling]


def _seed(row: Request) -> int:
    """Zero is a seed too."""
    return seed_of(row.id) if row.params.seed is None else row.params.seed
