"""Interference: how much prefills stretched the decodes beside them. Knows steps as sums, no request.

A mixed step took T; a step of the same decodes alone would have taken B; T - B is what the prefill in it cost everybody who
decoded. B is the median of the run's own pure-decode steps of the nearest number of decodes (within a quarter of it, or
one), among those of the nearest KV memory in use: the longer the contexts, the longer a decode. It is a measurement of this
run, not a model; where there is nothing to compare with, a step is left out and counted as such.
Source: papers on stall-free batching measure this as the tail of ITL (Agrawal et al., Sarathi-Serve, OSDI'24); the
attribution to steps is ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from heapq import nsmallest
from statistics import median

from scheduler.metrics.waste import Load

WORST = 5
EXACT = 16  # up to so many decodes are compared with the same number only, more in groups a tenth wide
NEAR = 0.25


@dataclass(frozen=True, slots=True)
class Stretched:
    """One mixed step: it took `ns`, its decodes alone would have taken `alone`."""

    boot: int
    seq: int
    ns: int
    alone: float
    decodes: int
    prefill_tokens: int


@dataclass(frozen=True, slots=True)
class Interference:
    """What prefills cost the decodes of a run; times in ns.

    mixed, compared   mixed steps, and those of them that had a pure-decode step to compare with
    stretched         Σ (T - B) over the compared: wall time
    lost, decoding    Σ decodes · (T - B) over the compared, Σ decodes · T over all steps: time of requests
    worst             the steps that stretched most
    """

    mixed: int
    compared: int
    stretched: float
    lost: float
    decoding: int
    worst: tuple[Stretched, ...]

    @property
    def share(self) -> float | None:
        """The share of all decode time that was spent waiting for others' prefills; None without decodes."""
        return self.lost / self.decoding if self.decoding else None


Cell = tuple[int, int]


def interference(steps: Iterable[Load]) -> Interference | None:
    """None where there were no mixed steps that could be compared."""
    pure: dict[Cell, list[int]] = {}
    mixed: list[tuple[Cell, Load]] = []
    decoding = 0
    for step in steps:
        if not step.decode_tokens:
            continue
        ns = step.ended_at - step.started_at
        decoding += step.decode_tokens * ns
        cell = (_group(step.decode_tokens), _memory(step.kv_used))
        if step.prefill_tokens:
            mixed.append((cell, step))
        else:
            pure.setdefault(cell, []).append(ns)
    alone = _Baseline({cell: median(taken) for cell, taken in pure.items()})
    stretched = [_stretch(step, base) for cell, step in mixed if (base := alone.of(cell)) is not None]
    if not stretched:
        return None
    return Interference(
        len(mixed),
        len(stretched),
        math.fsum(each.ns - each.alone for each in stretched),
        math.fsum(each.decodes * (each.ns - each.alone) for each in stretched),
        decoding,
        tuple(nsmallest(WORST, stretched, key=lambda each: (each.alone - each.ns, each.boot, each.seq))),
    )


def _stretch(step: Load, alone: float) -> Stretched:
    return Stretched(step.boot, step.seq, step.ended_at - step.started_at, alone, step.decode_tokens, step.prefill_tokens)


class _Baseline:
    """The median of pure-decode steps by cell; the nearest cell stands in for an empty one."""

    def __init__(self, medians: dict[Cell, float]) -> None:
        self._medians = medians
        self._found: dict[Cell, float | None] = {}

    def of(self, cell: Cell) -> float | None:
        """None where the nearest number of decodes is not near."""
        if cell not in self._found:
            nearest = min(self._medians, key=lambda other: _distance(cell, other), default=None)
            near = nearest is not None and _near(cell[0], nearest[0])
            self._found[cell] = self._medians[nearest] if nearest is not None and near else None
        return self._found[cell]


@lru_cache(maxsize=4096)
def _group(decodes: int) -> int:
    """The number of decodes, in groups a tenth wide beyond EXACT; a group is named by its least number."""
    if decodes <= EXACT:
        return decodes
    return math.ceil(EXACT * 1.1 ** math.floor(math.log(decodes / EXACT, 1.1)))


@lru_cache(maxsize=4096)
def _memory(blocks: int | None) -> int:
    """KV blocks in use, in groups of a fifth; 0 where unknown, so that the number of decodes alone decides."""
    return math.floor(math.log(blocks, 1.2)) + 1 if blocks else 0


def _distance(cell: Cell, other: Cell) -> tuple[float, int, int, int]:
    """Decodes first, then memory; of two as near, the smaller."""
    return abs(math.log(cell[0] / other[0])), abs(cell[1] - other[1]), other[0], other[1]


def _near(decodes: int, other: int) -> bool:
    return abs(decodes - other) <= max(1, NEAR * decodes)
