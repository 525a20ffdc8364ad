"""Runner: executes a plan. Knows block tables and start positions; decides nothing.

Invariant: `run` returns one token for each row of `plan.sampling`, in that order, and changes no request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from scheduler.core.plan import StepOutput, StepPlan
from scheduler.core.request import Request


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the runner can hold. kv_tokens: 0 lets the settings decide; eos_token_ids end a sequence unless ignored."""

    model: str
    hardware: str | None
    vocab_size: int
    max_model_len: int
    kv_tokens: int
    eos_token_ids: tuple[int, ...]
    simulated: bool
    device: str
    dtype: str


class Runner(Protocol):
    """Executes plans. `live` runners take the time they report; the others only name it."""

    live: bool

    def capacity(self) -> Capacity:
        """What this runner can hold; asked once, after loading."""

    def allocate(self, blocks: int, block_size: int) -> None:
        """Make room for `blocks` KV blocks; called once, before the first run."""

    def run(self, plan: StepPlan) -> StepOutput:
        """One forward pass. Row errors are reported in the output; only what breaks the runner is raised."""

    def release(self, request: Request) -> None:
        """`request` ended: forget what was kept for it (sampler state)."""
