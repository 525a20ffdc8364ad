"""Attention over the paged cache: singles by batched products, chunks by the library's fused kernel. Knows no request.

Singles (one query a sequence) are memory traffic: gather the rows of keys and values of a whole group into one reused
buffer, then two batched matrix products with the query heads that share a key head as the rows. No loop over sequences.
Chunks (many queries of one sequence) are arithmetic: scaled_dot_product_attention, a call per chunk.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from scheduler.runners.torch_runner.batch import Batch, Singles, Stretch
from scheduler.runners.torch_runner.config import LlamaConfig
from scheduler.runners.torch_runner.kv_cache import KVCache


class GatherBuffer:
    """Memory for gathered rows, grown to the widest group seen and reused in every layer and step."""

    def __init__(self) -> None:
        self._held: Tensor | None = None

    def __call__(self, pool: Tensor, rows: Tensor) -> Tensor:
        """Rows of `pool`, copied here; good until the next call."""
        wanted = len(rows) * pool.shape[1]
        if self._held is None or self._held.numel() < wanted:
            self._held = pool.new_empty(wanted)
        return torch.index_select(pool, 0, rows, out=self._held[:wanted].view(len(rows), pool.shape[1]))


class PagedAttention:
    """Reads and writes `cache`."""

    def __init__(self, config: LlamaConfig, cache: KVCache) -> None:
        self._cache = cache
        self._kv_heads, self._group, self._dim = config.kv_heads, config.group, config.head_dim
        self._scale = config.head_dim**-0.5
        self._gather_keys, self._gather_values = GatherBuffer(), GatherBuffer()

    def __call__(self, layer: int, batch: Batch, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """[tokens, heads, head_dim] and [tokens, kv_heads, head_dim] twice → [tokens, heads * head_dim]."""
        self._cache.write(layer, batch.places, keys, values)
        out = torch.empty_like(queries)
        for group in batch.singles:
            self._singles(layer, group, queries, out)
        for stretch in batch.stretches:
            own = slice(stretch.first, stretch.first + stretch.count)
            out[own] = self._stretch(layer, stretch, queries[own], keys[own], values[own])
        return out.view(len(out), -1)

    def _singles(self, layer: int, group: Singles, queries: Tensor, out: Tensor) -> None:
        shape = (group.count * self._kv_heads, group.context, self._dim)
        keys = self._gather_keys(self._cache.keys[layer], group.rows).view(shape)
        values = self._gather_values(self._cache.values[layer], group.rows).view(shape)
        own = slice(group.first, group.first + group.count)
        query = queries[own].reshape(-1, self._group, self._dim)
        scores = torch.baddbmm(group.mask, query, keys.transpose(1, 2), alpha=self._scale)
        out[own] = torch.bmm(torch.softmax(scores, -1), values).view(group.count, -1, self._dim)

    def _stretch(self, layer: int, stretch: Stretch, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        key, value = keys.transpose(0, 1), values.transpose(0, 1)
        if stretch.rows is not None:
            shape = (self._kv_heads, stretch.context, self._dim)
            key = self._gather_keys(self._cache.keys[layer], stretch.rows).view(shape)
            value = self._gather_values(self._cache.values[layer], stretch.rows).view(shape)
        answer = scaled_dot_product_attention(
            query.transpose(0, 1)[None],
            key[None],
            value[None],
            attn_mask=stretch.mask,
            is_causal=stretch.mask is None,
            scale=self._scale,
            enable_gqa=self._group > 1,
        )
        return answer[0].transpose(0, 1)
