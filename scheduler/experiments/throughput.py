"""What load a server can bear: E8 and E8b of the literature. On a simulated H100."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from scheduler.core.request import Request
from scheduler.experiments.figure import OWN, Experiment, Figure, Part, at_least, at_most, within
from scheduler.experiments.record import SECOND, SEED, Record, job, play, poisson
from scheduler.runners.cost_model import DEFAULT_HARDWARE, CostModel, StepShape, load
from scheduler.runners.simulated import SimulatedRunner

PROMPT, OUTPUT, BUDGET, SLOTS = 512, 128, 512, 512
SOURCE = "Li, Dai, Peng, 2025: any work-conserving order bears whatever can be borne"


def capacity(cost: CostModel) -> float:
    """Requests a second when every step is full: in the mean 64 of 512 tokens decode, at 600 tokens of context."""
    decodes, context = 64, 600
    shape = StepShape(decodes, decodes * context, ((BUDGET - decodes, 0),), 1)
    return BUDGET / (cost.step_ms(shape) / 1e3) / (PROMPT + OUTPUT)


def offered(load_share: float, seconds: float) -> tuple[Record, int]:
    """The run up to the end of arrivals at this share of capacity, and how many came."""
    cost = load(DEFAULT_HARDWARE)
    rate = load_share * capacity(cost)
    arrivals = [at for at in poisson(Random(SEED), rate, round(1.2 * rate * seconds)) if at < seconds * SECOND]
    requests = [job(i, at, OUTPUT, PROMPT) for i, at in enumerate(arrivals)]
    run = play(requests, SimulatedRunner(cost), until_s=seconds, max_num_seqs=SLOTS, max_num_batched_tokens=BUDGET)
    return run, len(arrivals)


def stability(seconds: float = 600) -> Iterator[Figure]:
    """How many are left at the end of arrivals, below capacity and above it."""
    most = capacity(load(DEFAULT_HARDWARE))
    finished = {}
    for share in (0.8, 0.95, 1.1, 1.3):
        run, came = offered(share, seconds)
        finished[share] = sum(life.finished_at is not None for life in run.lives)
        backlog, excess = came - finished[share], (share - 1) * most * seconds
        what = f"requests left after {seconds:g} s at {share:g} of capacity"
        if share < 1:
            yield at_most(what, backlog, 1000, SOURCE)
        else:
            yield at_least(what, backlog, 0.8 * excess, "0.8 of what came beyond capacity")
    yield within("finished at 1.3 and at 1.1 of capacity", finished[1.3] / finished[1.1], 1.0, 0.01, SOURCE, "times")


def mixing(requests: int = 1_500) -> Iterator[Figure]:
    """Everybody is there at once: prompts computed beside the decodes, and in steps of their own."""
    rates = {(slots, way): _drained(requests, slots, way) for slots in (64, 256) for way in ("continuous", "merge")}
    for slots, known in ((64, 40.9), (256, 51.1)):
        yield within(f"requests a second, mixed steps, {slots} slots", rates[slots, "continuous"], known, 0.1, OWN, "/s")
    gain = rates[64, "continuous"] / rates[64, "merge"]
    yield at_least("mixed over separate steps, 64 slots", gain, 1.1, "at least a tenth", "times")


def _drained(count: int, slots: int, batching: str) -> float:
    everybody: list[Request] = [job(i, 0, OUTPUT, PROMPT) for i in range(count)]
    runner = SimulatedRunner(load(DEFAULT_HARDWARE))
    run = play(everybody, runner, batching=batching, max_num_seqs=slots, max_num_batched_tokens=BUDGET)
    return count / (run.end.now / SECOND)


THROUGHPUT = Experiment(
    name="throughput",
    says="Below capacity the queue stays short, above it grows by what comes too much, and what is finished no longer depends "
    "on the load. Computing prompts beside decodes bears more than computing them apart.",
    source="Li, Dai, Peng, 2025; Orca (Yu et al., OSDI'22)",
    parts=(
        Part("below and above capacity", stability, quick={"seconds": 60}),
        Part("mixed and separate steps", mixing, quick={"requests": 600}),
    ),
)
