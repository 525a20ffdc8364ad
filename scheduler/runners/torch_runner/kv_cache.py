"""KVCache: the keys and values of all sequences, in blocks, a pool per layer. Knows no request; blocks are numbers.

Layout, head-major: row `block * kv_heads + head` of a pool holds that block's `block_size` vectors of that head. So a
sequence's history of one head is a gather of whole rows, and comes out in order, ready for a batched matrix product.
Invariant: whatever a block held before, its stale numbers are finite (it starts as zeros, `scrub` cleans up): a masked
position weighs nothing, but nothing times infinity would not be nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from scheduler.runners.torch_runner.config import LlamaConfig


class KVCache:
    """Pools for `blocks` blocks of `block_size` tokens."""

    def __init__(self, config: LlamaConfig, blocks: int, block_size: int, device: torch.device, dtype: torch.dtype) -> None:
        self.blocks, self.block_size = blocks, block_size
        self.kv_heads, self.head_dim = config.kv_heads, config.head_dim
        shape = (blocks * config.kv_heads, block_size * config.head_dim)
        self.keys = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(config.layers)]
        self.values = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(config.layers)]

    def write(self, layer: int, places: Tensor, keys: Tensor, values: Tensor) -> None:
        """Store [tokens, kv_heads, head_dim] at `places`, vector indices by (token, head)."""
        for pool, new in ((self.keys[layer], keys), (self.values[layer], values)):
            pool.view(-1, self.head_dim).index_copy_(0, places, new.reshape(-1, self.head_dim))

    def scrub(self, blocks: Sequence[int]) -> None:
        """Replace what is not finite in `blocks` by zeros, in every layer."""
        heads = torch.arange(self.kv_heads, device=self.keys[0].device)
        numbers = torch.tensor(blocks, device=heads.device)
        rows = (numbers[:, None] * self.kv_heads + heads).reshape(-1)
        for pool in (*self.keys, *self.values):
            pool[rows] = torch.nan_to_num(pool[rows], nan=0.0, posinf=0.0, neginf=0.0)


def bytes_per_token(config: LlamaConfig, dtype: torch.dtype) -> int:
    """KV memory of one token over all layers."""
    return 2 * config.layers * config.kv_heads * config.head_dim * dtype.itemsize
