"""Shortest first where many run at once: E2b and E13 of the literature. On a simulated H100."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

from scheduler.core.request import Request
from scheduler.experiments.figure import OWN, Experiment, Figure, Part, at_least, at_most, within
from scheduler.experiments.queueing import ONE_SERVER
from scheduler.experiments.record import SEED, Record, job, play, poisson
from scheduler.runners.cost_model import DEFAULT_HARDWARE, load
from scheduler.runners.simulated import SimulatedRunner

GAINS = {0.7: 1.06, 0.9: 1.62, 0.98: 1.99}  # load → mean response of FCFS over that of SRTF
CAPACITY = 32.6  # requests a second of the bimodal mix on 32 slots, as a separate simulator of ours found


def served(requests: list[Request], policy: str, slots: int) -> Record:
    """One run on the simulated H100. Who is preempted finds its blocks in the prefix cache again: few tokens are lost."""
    runner = SimulatedRunner(load(DEFAULT_HARDWARE))
    return play(requests, runner, policy, max_num_seqs=slots, enable_prefix_caching=True)


def bimodal(load_share: float, jobs: int, noise: float = 0.0) -> list[Request]:
    """Nine answers of 32 tokens to one of 1,000. noise: of what is told of their length, sigma of its logarithm."""
    rng = Random(SEED)
    arrivals = poisson(rng, load_share * CAPACITY, jobs)
    outputs = [32 if rng.random() < 0.9 else 1000 for _ in arrivals]
    told = [max(1, round(output * rng.lognormvariate(0.0, noise))) for output in outputs]
    return [job(i, at, outputs[i], 128, expected_output_tokens=told[i]) for i, at in enumerate(arrivals)]


def gain(jobs: int = 20_000, known: Mapping[float, float] = GAINS) -> Iterator[Figure]:
    """Mean response of FCFS over that of SRTF, by load. Near capacity the means of one sample spread by a fifth."""
    for share, factor in known.items():
        in_order = served(bimodal(share, jobs), "fcfs", 32).mean_response_s()
        ours = in_order / served(bimodal(share, jobs), "srtf", 32).mean_response_s()
        what = f"fcfs over srtf, 32 slots at load {share:g}"
        if share < 0.9:
            yield within(what, ours, factor, 0.15, OWN, "times")
        else:
            yield at_least(what, ours, 0.8 * factor, f"0.8 of {factor:g}, {OWN}", "times")
    wrong = in_order / served(bimodal(share, jobs, noise=1.0), "srtf", 32).mean_response_s()
    yield at_least(f"the same at load {share:g}, lengths told wrongly (σ = 1)", wrong, 1.05, "the gain survives", "times")


def no_lengths_known(jobs: int = 5_000, rate: float = 14.0) -> Iterator[Figure]:
    """Skip-join queues, told nothing of lengths, beside orders that are told them."""
    rng = Random(SEED)
    arrivals = poisson(rng, rate, jobs)
    shapes = [(_tokens(rng, 4.0, 1.3, 2000), _tokens(rng, 5.5, 1.0, 8000)) for _ in arrivals]

    def run(policy: str) -> Record:
        return served([job(i, at, *shapes[i]) for i, at in enumerate(arrivals)], policy, 16)

    fcfs, srtf, skip_join = (run(policy) for policy in ("fcfs", "srtf", "skip_join_mlfq"))
    yield at_most(
        "mean response, skip_join_mlfq",
        skip_join.mean_response_s(),
        1.1 * srtf.mean_response_s(),
        "1.1 of srtf, which knows lengths",
        "s",
    )
    yield at_most("mean TTFT, skip_join_mlfq", skip_join.mean_ttft_s(), 0.2 * fcfs.mean_ttft_s(), "a fifth of fcfs", "s")


def _tokens(rng: Random, mu: float, sigma: float, most: int) -> int:
    return min(most, max(1, round(rng.lognormvariate(mu, sigma))))


SRTF = Experiment(
    name="srtf",
    says="Few long jobs among many short ones. On one server, least remaining work first brings the mean response down by the "
    "factor that theory gives; on a GPU that runs 32 at once the gain is smaller, and needs a queue.",
    source="Schrage & Miller, 1966; TRAIL (Shahout et al., ICLR'25)",
    parts=(
        *ONE_SERVER,
        Part("32 slots on a simulated H100", gain, quick={"jobs": 2_000, "known": {0.98: 1.99}}),
    ),
)
MLFQ = Experiment(
    name="mlfq",
    says="Answers of very different lengths, told to nobody. Skip-join queues come near to the order that knows every length, "
    "and give first tokens far sooner than first come, first served.",
    source="FastServe (Wu et al., NSDI'26)",
    parts=(Part("16 slots on a simulated H100", no_lengths_known, quick={"jobs": 1_500, "rate": 15.5}),),
)
