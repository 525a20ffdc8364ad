"""ALLOCATE: whether a request's KV blocks fit. Answers questions only; the pool's blocks are taken by others.

  on_demand  admission takes blocks for the whole sequence so far (prompt, and output before a preemption), so that a
             prefill that began never lacks one; decodes take a block when they need it, and somebody yields when none
             is left
  reserve    admission takes blocks for the whole output too: nobody is ever preempted for want of memory
`watermark` of the pool is kept free at admission, for the decodes to grow into. Once blocks have run out, and for as long
as anybody waits, admission leaves more free: room for GROWTH tokens of each that runs, or up to the first end among them.
Else who was preempted would be back at once and push out the next (SGLang raises its estimate after a retraction
likewise). An idle engine ignores both, so that whatever fits the pool at all is served. A sequence ends by length where
the pool ends: `longest`.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.blocks import BlockPool
from scheduler.core.limits import Limits
from scheduler.core.request import Request

GROWTH = 64


def longest_sequence(limits: Limits, pool: BlockPool) -> int:
    """Most tokens of a sequence. The last one needs no room: nothing is computed from it."""
    return min(limits.max_model_len, pool.total * pool.size + 1)


class Allocation:
    """The rules above for one set of limits."""

    __slots__ = ("_pool", "_reserve", "_longest", "_kept_free")

    def __init__(self, limits: Limits, pool: BlockPool) -> None:
        self._pool = pool
        self._reserve = limits.allocation == "reserve"
        self._longest = longest_sequence(limits, pool)
        self._kept_free = int(limits.watermark * pool.total)

    def wanted(self, request: Request) -> int:
        """Blocks that `request` holds once it is admitted."""
        if not self._reserve:
            return self._pool.blocks_for(len(request.tokens))
        end = min(request.prompt_tokens + request.params.max_tokens, self._longest)
        return self._pool.blocks_for(max(end - 1, len(request.tokens)))

    def lacking(self, wanted: int, hits: Sequence[int], idle: bool, spare: int = 0) -> int:
        """Free blocks that are missing for a request that wants `wanted`, `hits` of which are cached; 0: it may be admitted.

        `spare` blocks are promised to others.
        """
        kept = 0 if idle else max(self._kept_free, spare)
        return max(0, kept - self._pool.room(hits) + wanted - len(hits))

    def growth(self, running: int, tokens: int) -> int:
        """Blocks into which `running` requests and one more grow with `tokens` tokens each, at most GROWTH."""
        return self._pool.blocks_for((running + 1) * min(tokens, GROWTH))

    def fits_after(self, wanted: int, hits: Sequence[int], returned: Sequence[Sequence[int]], spare: int) -> bool:
        """The same once the block tables `returned` are given back, with `spare` blocks left over."""
        return self._pool.room(hits, returned) - (wanted - len(hits)) >= spare
