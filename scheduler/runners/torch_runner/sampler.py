"""Sampler: logits to one token a row. Knows what a request asked for; no model, no cache.

Each random choice uses one uniform number made from (seed, output position): it depends on nothing else, so neither the
order nor the company of a batch changes a request's tokens. Per row, and with the same arithmetic whoever its mates are:
greedy: argmax in float32. Temperature alone: inverse of the cumulative distribution in two levels (blocks, then the
tokens of one block), 17 times cheaper here than drawing a number per vocabulary entry. With top_k or top_p: within the
256 most likely tokens; a row whose nucleus does not fit in there is sorted whole.
A row with NaN or infinity in it gets no token: it is named in `errors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from scheduler.core.request import Request

NAN_LOGITS = "nan_logits"

_BLOCK = 256
_CANDIDATES = 256
_COLDEST = 1e-30  # below it, float32 would divide nothing by nothing
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Choice:
    """A token for each row, and the rows that could have none (their entry in `tokens` is 0)."""

    tokens: list[int]
    errors: dict[int, str]


def choose(logits: Tensor, requests: Sequence[Request]) -> Choice:
    """One token for each row of [rows, vocabulary]; row i belongs to requests[i]. `logits` may be overwritten."""
    logits = logits.float()
    finite = torch.isfinite(logits.sum(-1))
    _forbid_early_stops(logits, requests)
    tokens = logits.argmax(-1)
    random = [row for row, request in enumerate(requests) if request.params.temperature > 0]
    if random:
        rows = torch.tensor(random, device=logits.device)
        chosen = [requests[row] for row in random]
        tokens[rows] = _draw(torch.nan_to_num(logits[rows]), chosen)
    errors = {}
    if not bool(finite.all()):
        errors = {row: NAN_LOGITS for row, good in enumerate(finite.tolist()) if not good}
        tokens.masked_fill_(~finite, 0)
    return Choice(tokens.tolist(), errors)


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) with 53 random bits from (seed, position): SplitMix64's mixer, twice."""
    return (_mix(_mix(seed & _MASK) + position) >> 11) * 2.0**-53


def _mix(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def _forbid_early_stops(logits: Tensor, requests: Sequence[Request]) -> None:
    """Below min_tokens, the ids that would end the output cannot be chosen."""
    for row, request in enumerate(requests):
        params = request.params
        if params.min_tokens > request.output_tokens and params.stop_token_ids:
            known = [number for number in params.stop_token_ids if number < logits.shape[1]]
            logits[row, known] = -torch.inf


def _draw(logits: Tensor, requests: Sequence[Request]) -> Tensor:
    """Random tokens for rows that are all finite and all have a temperature."""
    device = logits.device
    numbers = [uniform(request.params.seed or 0, request.output_tokens) for request in requests]
    uniforms = torch.tensor(numbers, dtype=torch.float64, device=device)
    temperatures = torch.tensor([request.params.temperature for request in requests], device=device).clamp_min(_COLDEST)
    probabilities = torch.softmax((logits - logits.amax(-1, keepdim=True)) / temperatures[:, None], -1)
    filtered = [row for row, request in enumerate(requests) if request.params.top_p < 1 or request.params.top_k > 0]
    if not filtered:
        return _inverse(probabilities, uniforms)
    tokens = torch.empty(len(requests), dtype=torch.int64, device=device)
    if free := [row for row in range(len(requests)) if row not in set(filtered)]:
        tokens[free] = _inverse(probabilities[free], uniforms[free])
    tokens[filtered] = _nucleus(probabilities[filtered], uniforms[filtered], [requests[row] for row in filtered])
    return tokens


def _inverse(probabilities: Tensor, uniforms: Tensor) -> Tensor:
    """The token where the cumulative sum passes uniform · total: first its block, then its place in the block."""
    rows, size = probabilities.shape
    blocks = functional.pad(probabilities, (0, -size % _BLOCK)).view(rows, -1, _BLOCK)
    block, rest = _pass(blocks.sum(-1, dtype=torch.float64), uniforms)
    inside = blocks[torch.arange(rows, device=block.device), block].double()
    place, _ = _pass(inside, rest / inside.sum(-1))
    return block * _BLOCK + place


def _pass(weights: Tensor, fractions: Tensor) -> tuple[Tensor, Tensor]:
    """By row: the first index whose cumulative weight exceeds fraction · total, and by how much it was entered.

    Never an index of weight 0: the target is kept below the total, and the sum only grows at positive weights.
    """
    sums = weights.cumsum(-1)
    total = sums[:, -1]
    target = torch.minimum(fractions * total, torch.nextafter(total, torch.zeros_like(total)))
    index = torch.searchsorted(sums, target[:, None], right=True)
    before = sums.gather(1, (index - 1).clamp_min(0)) * (index > 0)
    return index[:, 0], target - before[:, 0]


def _nucleus(probabilities: Tensor, uniforms: Tensor, requests: Sequence[Request]) -> Tensor:
    """top_k, then top_p over what it left, then a draw among the rest."""
    size = probabilities.shape[1]
    device = probabilities.device
    top_k = torch.tensor([min(request.params.top_k, size) or size for request in requests], device=device)
    top_p = torch.tensor([request.params.top_p for request in requests], dtype=torch.float64, device=device)
    total = probabilities.sum(-1, dtype=torch.float64)
    best, ids = probabilities.topk(min(_CANDIDATES, size), -1)
    tokens, fits = _within(best, ids, uniforms, top_k, top_p, total, size)
    if not bool(fits.all()):
        rows = (~fits).nonzero()[:, 0]
        best, ids = probabilities[rows].sort(dim=-1, descending=True, stable=True)
        tokens[rows], _ = _within(best, ids, uniforms[rows], top_k[rows], top_p[rows], total[rows], size)
    return tokens


def _within(
    best: Tensor, ids: Tensor, uniforms: Tensor, top_k: Tensor, top_p: Tensor, total: Tensor, size: int
) -> tuple[Tensor, Tensor]:
    """A draw among `best` (descending), and by row whether what top_k and top_p leave lies wholly in it."""
    width = best.shape[1]
    weights = best.double() * (torch.arange(width, device=best.device) < top_k[:, None])
    sums = weights.cumsum(-1)
    whole = torch.where(top_k <= width, sums[:, -1], total)
    before = sums - weights
    kept = weights * ((before < (top_p * whole)[:, None]) | (before == 0))
    fits = (top_k <= width) | ((top_k == size) & (sums[:, -1] >= top_p * total))
    place, _ = _pass(kept, uniforms)
    return ids.gather(1, place[:, None])[:, 0], fits
