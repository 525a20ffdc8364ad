"""Fit a cost model to the steps of a recorded run. Knows shapes and milliseconds; where they come from, it does not.

Unknown are what a step of few tokens costs, how much each stretch of token counts adds (so that `body` never falls), what a
sequence adds to the head, and the attention coefficients of the three regimes: all of them not negative, all at once, by
least squares over relative errors, so that a step of 3 ms counts as much as one of 300. One step in five is held out, and
the error is told of those. What a run never did, its model does not know: beyond the longest step it grows in proportion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

from scheduler.errors import SettingsError
from scheduler.metrics import percentile
from scheduler.runners.nnls import nnls
from scheduler.runners.step_cost import CostModel, StepShape, Table, as_json, prefill_gflop, regime_of

ATTN_WIDTH = 4096  # only scales per_prefill_gflop: the recorded model's own is in no record
HELD_OUT = 5  # one in so many
MOST = 3_000  # samples of a regime that are fitted to
FEWEST = 40  # different shapes, without which there is nothing to tell coefficients apart by
FEWEST_OF_REGIME = 8
FEWEST_BETWEEN = 8  # samples between two points of the body
POINTS = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12_288, 16_384)
REGIMES = ("decode", "prefill", "mixed")


class Sample(NamedTuple):
    """One step: what it held, and what it took."""

    shape: StepShape
    ms: float


@dataclass(frozen=True, slots=True)
class FitError:
    """Of one regime: samples fitted to, samples held out, and of these the mean and the 95th percentile of |error| / ms."""

    fitted: int
    held_out: int
    mape: float | None
    p95: float | None


@dataclass(frozen=True, slots=True)
class Fit:
    """A model, and how well it tells steps that it was not fitted to."""

    model: CostModel
    errors: dict[str, FitError]

    def as_json(self) -> dict[str, Any]:
        """The model as a file has it, and the errors under `fit`."""
        errors = {
            name: {"fitted": error.fitted, "held_out": error.held_out, "mape": error.mape, "p95": error.p95}
            for name, error in self.errors.items()
        }
        return as_json(self.model) | {"fit": errors}


def fit(samples: Sequence[Sample], *, kv_capacity_tokens: int, id: str, gpu: str, model: str) -> Fit:
    """The model whose steps are nearest to `samples`; raises SettingsError where they are too few or too alike."""
    usable = [sample for sample in samples if sample.ms > 0 and (sample.shape.decodes or sample.shape.chunks)]
    _check(usable, kv_capacity_tokens)
    by_regime = {name: [sample for sample in usable if regime_of(sample.shape) == name] for name in REGIMES}
    kept = {name: [s for i, s in enumerate(group) if i % HELD_OUT != HELD_OUT - 1] for name, group in by_regime.items()}
    held = {name: group[HELD_OUT - 1 :: HELD_OUT] for name, group in by_regime.items()}
    fitted = {name: group[:: ceil(len(group) / MOST) or 1] for name, group in kept.items()}
    training = [sample for group in fitted.values() for sample in group]
    columns = _Columns(_points([_tokens(sample.shape) for sample in training]))
    rows = (([(i, value / sample.ms) for i, value in columns.row(sample.shape)], 1.0) for sample in training)
    found = columns.model(nnls(rows, columns.count), kv_capacity_tokens, id, gpu, model)
    lacking = [name for name in REGIMES if len(fitted[name]) < FEWEST_OF_REGIME]
    found = _lent(found, lacking)
    return Fit(found, {name: _error(found, len(fitted[name]), held[name]) for name in REGIMES})


class _Columns:
    """Which coefficient stands where: body, head, then the attention of each regime."""

    def __init__(self, points: list[int]) -> None:
        self.points = points
        self._attention = len(points) + 1
        self.count = self._attention + 5 * len(REGIMES)

    def row(self, shape: StepShape) -> Iterator[tuple[int, float]]:
        """What each coefficient is multiplied by in a step of this shape."""
        yield 0, 1.0
        tokens = _tokens(shape)
        for i, (low, high) in enumerate(zip(self.points, self.points[1:], strict=False), start=1):
            if tokens > low:
                yield i, min(1.0, (tokens - low) / (high - low))
        if heads := shape.decodes + shape.finishing:
            yield len(self.points), float(heads)
        first = self._attention + 5 * REGIMES.index(regime_of(shape))
        gflop, prior = prefill_gflop(ATTN_WIDTH, shape.chunks), sum(before for _, before in shape.chunks)
        for i, value in enumerate((1.0, shape.decodes, shape.context, gflop, prior)):
            if value:
                yield first + i, float(value)

    def model(self, x: list[float], kv_capacity_tokens: int, id: str, gpu: str, model: str) -> CostModel:
        """The coefficients as a cost model."""
        points = self.points
        ms = [sum(x[: i + 1]) for i in range(len(points))]
        head = x[len(points)]
        attention = {name: tuple(x[self._attention + 5 * i : self._attention + 5 * (i + 1)]) for i, name in enumerate(REGIMES)}
        body = Table(tuple(float(point) for point in points), tuple(ms))
        return CostModel(
            id, gpu, model, kv_capacity_tokens, ATTN_WIDTH, body, Table((1.0, 2.0), (head, 2 * head)), attention, 0.0
        )


def _tokens(shape: StepShape) -> int:
    return shape.decodes + sum(tokens for tokens, _ in shape.chunks)


def _points(tokens: Sequence[int]) -> list[int]:
    """Where the body bends: no stretch without enough steps to know it by."""
    ordered, points = sorted(tokens), [min(tokens)]
    seen = 0
    for point in POINTS:
        between = sum(seen_at <= point for seen_at in ordered[seen:]) if points[-1] < point < ordered[-1] else 0
        if between >= FEWEST_BETWEEN:
            points.append(point)
            seen += between
    while len(points) > 1 and len(ordered) - seen < FEWEST_BETWEEN:
        seen -= sum(points[-2] < at <= points[-1] for at in ordered)
        points.pop()
    return [*points, ordered[-1]] if ordered[-1] > points[-1] else points


def _check(samples: Sequence[Sample], kv_capacity_tokens: int) -> None:
    if kv_capacity_tokens <= 0:
        raise SettingsError("the records do not say how much KV memory the run had", "run")
    shapes = {sample.shape for sample in samples}
    if len(shapes) < FEWEST:
        raise SettingsError(
            f"{len(shapes)} different steps are too few to fit a cost model to (at least {FEWEST}): record a longer run", "run"
        )
    for name, what in (("decode", "decodes alone"), ("prefill", "prefills")):
        n = sum((not shape.chunks) == (name == "decode") for shape in shapes)
        if n < FEWEST_OF_REGIME:
            raise SettingsError(f"only {n} different steps hold {what}: a cost model needs {FEWEST_OF_REGIME}", "run")


def _lent(model: CostModel, lacking: Sequence[str]) -> CostModel:
    """A regime that the run hardly had takes the coefficients of its neighbour."""
    attention = dict(model.attention)
    for name in lacking:
        attention[name] = attention["mixed" if name == "prefill" else "prefill"]
    return CostModel(
        model.id, model.gpu, model.model, model.kv_capacity_tokens, model.attn_width, model.body, model.head, attention,
        model.overhead_ms,
    )  # fmt: skip


def _error(model: CostModel, fitted: int, held: Sequence[Sample]) -> FitError:
    errors = sorted(abs(model.step_ms(sample.shape) - sample.ms) / sample.ms for sample in held)
    return FitError(fitted, len(held), sum(errors) / len(errors) if errors else None, percentile(errors, 95))
