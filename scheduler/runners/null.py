"""NullRunner: a step that costs nothing: the ceiling of everything around the runner. Knows no model and no hardware."""

from __future__ import annotations

from scheduler.core.plan import StepOutput, StepPlan
from scheduler.core.request import Request
from scheduler.runners.base import Capacity
from scheduler.runners.simulated import CONTEXT_TOKENS, sentence_tokens
from scheduler.text.byte_tokenizer import EOS_TOKEN_ID, VOCAB_SIZE


class NullRunner:
    """Runs plans in no time; its KV memory is whatever the settings say."""

    live = True

    def capacity(self) -> Capacity:
        """No limits of its own."""
        return Capacity(
            model="null",
            hardware=None,
            vocab_size=VOCAB_SIZE,
            max_model_len=CONTEXT_TOKENS,
            kv_tokens=0,
            eos_token_ids=(EOS_TOKEN_ID,),
            simulated=True,
            device="none",
            dtype="none",
        )

    def allocate(self, blocks: int, block_size: int) -> None:
        """There is nothing to hold."""

    def run(self, plan: StepPlan) -> StepOutput:
        """Tokens without work."""
        return StepOutput(tokens=sentence_tokens(plan), elapsed=0)

    def release(self, request: Request) -> None:
        """Nothing was kept."""
