"""What the events mean: latency, goodput, waiting, fairness, interference, waste. Pure folds, a file a question.

Knows no clock, no database and no screen; the same functions serve the live page, the reports and the simulator.
Everything is exact: integer ns in, integer ns or an unrounded ratio out; what is undefined is None, never 0.

    quantiles      percentiles, Jain's index                 lives          one request: TTFT, TPOT, E2E, parts
    waiting        by reason, depth, Little, starvation      inversions     a worse class went first
    objectives     SLO, attainment, fluidity index           slowdown       E2E against E2E alone
    tokens         instants of tokens, ITL                   fairness       service, and how far it drifts apart
    interference   decodes stretched by prefills             waste          what was computed twice, or not used
    resampling     bootstrap intervals                       (tests hold each of them to a log folded by hand)
Invariant: folding a finished log gives, for each request, parts that sum to its E2E. Only lives, tokens and the
readers of a log depend on the order of events; every other fold gives the same for its input in any order.
"""

from __future__ import annotations

from scheduler.core.request import FinishReason, WaitReason
from scheduler.metrics.fairness import (
    Served,
    Slots,
    Wait,
    served,
    service,
    service_drift,
    service_slots,
    waiting_of,
    wider,
    window_drift,
)
from scheduler.metrics.interference import Interference, Stretched, interference
from scheduler.metrics.inversions import Inversions, Spell, inversions, spells
from scheduler.metrics.lives import FINISHED_WELL, Life, lives
from scheduler.metrics.objectives import attainment, fluidity, meets
from scheduler.metrics.quantiles import few, jain, ordered_percentiles, percentile, percentiles
from scheduler.metrics.resampling import interval, quantile_draws, ratio_interval, share_draws
from scheduler.metrics.slowdown import extremes_ratio, isolated_ms
from scheduler.metrics.tokens import inter_token, token_times
from scheduler.metrics.waiting import WAIT_REASONS, QueueDepth, Starvation, depth, little, starvation, waits
from scheduler.metrics.waste import Memory, StepLoad, budget_used, idle_share, memory, ratio, recomputed, relapses, step_loads

__all__ = [
    "FINISHED_WELL",
    "WAIT_REASONS",
    "FinishReason",
    "Interference",
    "Inversions",
    "Life",
    "Memory",
    "QueueDepth",
    "Served",
    "Slots",
    "Spell",
    "Starvation",
    "StepLoad",
    "Stretched",
    "Wait",
    "WaitReason",
    "attainment",
    "budget_used",
    "depth",
    "extremes_ratio",
    "few",
    "fluidity",
    "idle_share",
    "inter_token",
    "interference",
    "interval",
    "inversions",
    "isolated_ms",
    "jain",
    "little",
    "lives",
    "meets",
    "memory",
    "ordered_percentiles",
    "percentile",
    "percentiles",
    "quantile_draws",
    "ratio",
    "ratio_interval",
    "recomputed",
    "relapses",
    "served",
    "service",
    "service_drift",
    "service_slots",
    "share_draws",
    "spells",
    "starvation",
    "step_loads",
    "token_times",
    "waiting_of",
    "waits",
    "wider",
    "window_drift",
]
