"""Batch: a StepPlan as tensors, one flat line of tokens. Knows block tables and positions; no weights, no sampling.

Order of the tokens: single tokens first (decodes, and chunks of one token, which are the same thing), longest history
first, so that neighbours pad little and every group of them is one slice; then the chunks. `sampled` leads from the
plan's sampling rows to their tokens, whatever the order here.
Groups of singles are cut so that their gathered keys and values stay within a cap that the last-level cache can hold.
Padding in a block table repeats the sequence's own block: a sequence never reads another one's numbers, even masked.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scheduler.core.plan import StepPlan
from scheduler.core.request import Request
from scheduler.runners.torch_runner.kv_cache import KVCache

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Singles:
    """Tokens [first, first + count) of the batch: one query each. mask: additive, [count * kv_heads, 1, context]."""

    first: int
    count: int
    context: int
    rows: Tensor
    mask: Tensor


@dataclass(frozen=True, slots=True)
class Stretch:
    """Tokens [first, first + count) of the batch: one sequence's chunk. rows: None when it starts the sequence.

    mask: True where a query may look, [count, context]; context counts whole blocks, the chunk included.
    """

    first: int
    count: int
    context: int
    rows: Tensor | None
    mask: Tensor | None


@dataclass(frozen=True, slots=True)
class Batch:
    """One forward pass. places: where each (token, head) vector is stored; owners: the request of each token."""

    ids: Tensor
    positions: Tensor
    places: Tensor
    sampled: Tensor
    singles: list[Singles]
    stretches: list[Stretch]
    owners: list[tuple[Request, int]]


@dataclass(frozen=True, slots=True)
class _Part:
    request: Request
    start: int
    tokens: int


class BatchBuilder:
    """Makes batches for one cache. gather_bytes: most bytes of keys and values that one group of singles gathers."""

    def __init__(self, cache: KVCache, gather_bytes: int) -> None:
        self._size, self._heads = cache.block_size, cache.kv_heads
        pool = cache.keys[0]
        self._device, self._dtype = pool.device, pool.dtype
        self._block_bytes = 2 * cache.kv_heads * cache.block_size * cache.head_dim * pool.dtype.itemsize
        self._gather_bytes = gather_bytes

    def build(self, plan: StepPlan) -> Batch:
        """The tensors of `plan`, which is not empty."""
        parts = [_Part(request, len(request.tokens) - 1, 1) for request in plan.decodes]
        parts += [_Part(chunk.request, chunk.start, chunk.tokens) for chunk in plan.chunks]
        rows = [*range(len(plan.decodes)), *(len(plan.decodes) + i for i, chunk in enumerate(plan.chunks) if chunk.last)]
        order = sorted(range(len(parts)), key=lambda i: (parts[i].tokens > 1, -parts[i].start if parts[i].tokens == 1 else i))
        ordered = [parts[i] for i in order]
        singles = sum(part.tokens == 1 for part in parts)
        ends = np.cumsum([part.tokens for part in ordered])
        last_token = np.empty(len(parts), dtype=np.int64)
        last_token[order] = ends - 1
        spans = [np.arange(part.start, part.start + part.tokens) for part in ordered[singles:]]
        positions = np.concatenate([np.array([part.start for part in ordered[:singles]], dtype=np.int64), *spans])
        return Batch(
            ids=self._tensor(np.fromiter(chain.from_iterable(_ids(part) for part in ordered), np.int64, len(positions))),
            positions=self._tensor(positions),
            places=self._tensor(self._places(ordered, singles, positions)),
            sampled=self._tensor(last_token[rows]),
            singles=self._groups(ordered[:singles]),
            stretches=[self._stretch(part, int(end)) for part, end in zip(ordered[singles:], ends[singles:], strict=True)],
            owners=[(part.request, part.tokens) for part in ordered],
        )

    def _places(self, ordered: list[_Part], singles: int, positions: Ints) -> Ints:
        """Vector index of each (token, head): ((block * heads) + head) * block_size + offset."""
        size = self._size
        blocks = np.empty(len(positions), dtype=np.int64)
        blocks[:singles] = [part.request.blocks[part.start // size] for part in ordered[:singles]]
        done = singles
        for part in ordered[singles:]:
            table = np.asarray(part.request.blocks, dtype=np.int64)
            blocks[done : done + part.tokens] = table[positions[done : done + part.tokens] // size]
            done += part.tokens
        heads = np.arange(self._heads)
        return ((blocks[:, None] * self._heads + heads) * size + (positions % size)[:, None]).reshape(-1)

    def _groups(self, parts: list[_Part]) -> list[Singles]:
        groups, first = [], 0
        while first < len(parts):
            widest = self._blocks_of(parts[first])
            count = max(1, self._gather_bytes // (widest * self._block_bytes))
            groups.append(self._group(parts[first : first + count], first, widest))
            first += count
        return groups

    def _group(self, parts: list[_Part], first: int, width: int) -> Singles:
        """Queries that look at up to `width` blocks each."""
        table = np.empty((len(parts), width), dtype=np.int64)
        for row, part in zip(table, parts, strict=True):
            used = self._blocks_of(part)
            row[:used] = part.request.blocks[:used]
            row[used:] = row[used - 1]
        context = width * self._size
        lengths = np.array([part.start + 1 for part in parts])
        hidden = self._tensor(np.arange(context) >= lengths[:, None])
        mask = torch.zeros(hidden.shape, dtype=self._dtype, device=self._device).masked_fill_(hidden, -torch.inf)
        return Singles(first, len(parts), context, self._rows(table), mask.repeat_interleave(self._heads, dim=0)[:, None, :])

    def _stretch(self, part: _Part, end: int) -> Stretch:
        """A chunk that starts its sequence looks at itself; a later one at the cache, where it is by then too."""
        first = end - part.tokens
        if part.start == 0:
            return Stretch(first, part.tokens, part.tokens, None, None)
        table = np.array(part.request.blocks[: self._blocks_of(part)], dtype=np.int64)[None]
        context = table.shape[1] * self._size
        seen = np.arange(context) <= np.arange(part.start, part.start + part.tokens)[:, None]
        return Stretch(first, part.tokens, context, self._rows(table), self._tensor(seen))

    def _rows(self, table: Ints) -> Tensor:
        """Pool rows of [sequences, blocks] tables, ordered by (sequence, head, block)."""
        heads = np.arange(self._heads)
        return self._tensor((table[:, None, :] * self._heads + heads[:, None]).reshape(-1))

    def _blocks_of(self, part: _Part) -> int:
        return -(-(part.start + part.tokens) // self._size)

    def _tensor(self, values: NDArray[np.int64] | NDArray[np.bool_]) -> Tensor:
        return torch.from_numpy(values).to(self._device)


def _ids(part: _Part) -> list[int]:
    return part.request.tokens[part.start : part.start + part.tokens].tolist()
