"""The experiments by name, as `batchscope reproduce`, the tests and the benchmarks find them. Runs nothing."""

from __future__ import annotations

from scheduler.experiments.ageing import AGING
from scheduler.experiments.batched import MLFQ, SRTF
from scheduler.experiments.chunking import ITL, SARATHI
from scheduler.experiments.deadlines import EDF
from scheduler.experiments.fairness import VTC
from scheduler.experiments.figure import Experiment
from scheduler.experiments.overload import SHED
from scheduler.experiments.prefixes import PREFIX_ORDER
from scheduler.experiments.queueing import PRIORITY, QUEUEING
from scheduler.experiments.throughput import THROUGHPUT

_ALL = (VTC, SARATHI, EDF, SRTF, AGING, SHED, PRIORITY, MLFQ, PREFIX_ORDER, THROUGHPUT, ITL, QUEUEING)

EXPERIMENTS: dict[str, Experiment] = {each.name: each for each in _ALL}
