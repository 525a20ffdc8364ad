"""Limits: what the core needs to know of the settings. A protocol, since the core may not import the settings."""

from __future__ import annotations

from typing import Protocol


class Limits(Protocol):
    """The scheduler settings that the mechanism reads; scheduler.settings.SchedulerSettings satisfies it."""

    @property
    def max_num_seqs(self) -> int:
        """Most requests running at once (slots)."""

    @property
    def max_num_batched_tokens(self) -> int:
        """Token budget of a step."""

    @property
    def max_model_len(self) -> int:
        """Most tokens of a sequence, prompt and output."""

    @property
    def enable_chunked_prefill(self) -> bool:
        """May a prompt be computed over several steps?"""

    @property
    def long_prefill_token_threshold(self) -> int:
        """Most prefill tokens of one request in a step; 0 is no cap."""

    @property
    def long_prefill_token_threshold_adaptive(self) -> bool:
        """Is that cap at least a fair share of the budget?"""

    @property
    def itl_target_ms(self) -> float:
        """What a step may take: it makes the token budget; 0 is off."""

    @property
    def max_head_skips(self) -> int:
        """How often a request that lacks KV blocks may be passed by others; 0: never."""

    @property
    def batching(self) -> str:
        """ "continuous", "merge" or "static"."""

    @property
    def allocation(self) -> str:
        """ "on_demand" or "reserve"."""

    @property
    def watermark(self) -> float:
        """Share of the KV blocks kept free at admission."""

    @property
    def enable_prefix_caching(self) -> bool:
        """Are full blocks shared by hash?"""

    @property
    def max_num_queued_reqs(self) -> int:
        """Most waiting requests."""

    @property
    def max_num_queued_tokens(self) -> int:
        """Most waiting prompt tokens; 0 is off."""

    @property
    def admission(self) -> str:
        """ "bounded" or "shed"."""

    @property
    def ttft_slo_ms(self) -> int:
        """What "shed" holds a request to that names no deadline."""

    @property
    def shed_safety(self) -> float:
        """Factor on the estimate of "shed"."""

    @property
    def tenant_max_running(self) -> int:
        """Most running requests of a tenant; 0 is off."""

    @property
    def tenant_max_tokens(self) -> int:
        """Most tokens, prompt and max output, of a tenant's running requests; 0 is off."""
