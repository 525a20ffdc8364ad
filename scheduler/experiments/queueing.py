"""One server, where theory is exact: M/D/1, classes, shortest first, Little's law. E2, E6, E7 and E15 of the literature.

One slot and a fixed step make the scheduler a single server: a request of n output tokens is a job of n steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

from scheduler.core.request import Request
from scheduler.experiments.figure import Experiment, Figure, Part, exactly, within
from scheduler.experiments.record import MS, SECOND, SEED, Record, job, play, poisson
from scheduler.experiments.theory import lindley, response_srpt, wait_fcfs, waits_by_class
from scheduler.experiments.unit_cost import UnitCost
from scheduler.metrics import little

PK = "Pollaczek-Khinchine"
EVEN_LOADS = {0.5: 0.03, 0.8: 0.03, 0.9: 0.08}  # load → tolerance; near 1, a sample of this size errs by a twentieth
BIMODAL_LOADS = {0.5: 0.05, 0.8: 0.10}
SHORT_S, LONG_S, SHORT_SHARE = 0.2, 4.0, 0.9


def even_jobs(jobs: int = 60_000, loads: Mapping[float, float] = EVEN_LOADS) -> Iterator[Figure]:
    """M/D/1: jobs of half a second."""
    service = 0.5
    for load, tolerance in loads.items():
        arrivals = poisson(Random(SEED), load / service, jobs)
        run = play([job(i, at, 1) for i, at in enumerate(arrivals)], UnitCost(round(service * SECOND)), max_num_seqs=1)
        theory = service + wait_fcfs(load / service, service, service**2)
        yield within(f"mean response at load {load:g}", run.mean_response_s(), theory, tolerance, PK, "s")


def single_waits(jobs: int = 5_000) -> Iterator[Figure]:
    """Every wait of a FCFS queue, one by one."""
    rng, step = Random(SEED), 10 * MS
    arrivals = poisson(rng, 1.5, jobs)
    lengths = [rng.randrange(1, 120) for _ in arrivals]
    run = play(
        [job(i, at, length) for i, (at, length) in enumerate(zip(arrivals, lengths, strict=True))],
        UnitCost(step),
        max_num_seqs=1,
    )
    expected = lindley(arrivals, [length * step for length in lengths])
    differing = sum(life.queue != wait for life, wait in zip(run.lives, expected, strict=True))
    yield exactly(f"single waits of {jobs:,} that differ from the recursion, to the nanosecond", differing, 0, "Lindley")


def littles_law(jobs: int = 2_000) -> Iterator[Figure]:
    """∫ N dt against the sum of times, on a run with many slots, little memory and preemptions."""
    rng = Random(SEED)
    arrivals = poisson(rng, 33.0, jobs)
    requests = [job(i, at, rng.randrange(1, 60), rng.randrange(1, 90)) for i, at in enumerate(arrivals)]
    run = play(
        requests, UnitCost(20 * MS, 50_000), max_num_seqs=24, max_num_batched_tokens=64, kv_cache_tokens=1600, watermark=0.05
    )
    area, total = little(run.lives)
    yield exactly(
        "request-seconds in the queue, by its length and by single waits", area / SECOND, total / SECOND, "Little", "s"
    )
    inside = sum(life.e2e or 0 for life in run.lives)
    yield exactly("the same of the whole system", _time_inside(run) / SECOND, inside / SECOND, "Little", "s")


def _time_inside(run: Record) -> int:
    """The integral of the number of requests over time, request-ns, from the instants of coming and going alone."""
    comings = sorted(life.received_at for life in run.lives)
    goings = sorted(life.finished_at or 0 for life in run.lives)
    moves = sorted([(at, 1) for at in comings] + [(at, -1) for at in goings])
    area, level, before = 0, 0, 0
    for at, change in moves:
        area, level, before = area + level * (at - before), level + change, at
    return area


def classes(jobs: int = 40_000, tolerance: float = 0.05) -> Iterator[Figure]:
    """Two classes under static priority, and the same jobs first come, first served."""
    rng, step = Random(SEED), 0.2
    table = ((0.6, 0.4), (0.8, 0.6))  # (rate, service time) of the better and the lower class
    total = sum(rate for rate, _ in table)
    arrivals = poisson(rng, total, jobs)
    ranks = [int(rng.random() > table[0][0] / total) for _ in arrivals]

    def served(policy: str) -> Record:
        requests = [
            job(i, at, round(table[rank][1] / step), priority=rank)
            for i, (at, rank) in enumerate(zip(arrivals, ranks, strict=True))
        ]
        return play(requests, UnitCost(round(step * SECOND)), policy, max_num_seqs=1)

    by_class, in_order = served("priority"), served("fcfs")
    rank_of = {f"job-{i}": rank for i, rank in enumerate(ranks)}
    waits = [by_class.mean_wait_s(lambda life, rank=rank: rank_of[life.id] == rank) for rank in (0, 1)]  # type: ignore[misc]
    for name, ours, theory in zip(("better", "lower"), waits, waits_by_class(table), strict=True):
        yield within(f"mean wait of the {name} class under priority", ours, theory, tolerance, "Cobham", "s")
    mixed = wait_fcfs(total, sum(r * s for r, s in table) / total, sum(r * s * s for r, s in table) / total)
    yield within("mean wait under fcfs", in_order.mean_wait_s(), mixed, tolerance, PK, "s")
    kept = sum(rate * service * wait for (rate, service), wait in zip(table, waits, strict=True))
    law = sum(rate * service for rate, service in table) * mixed
    yield within("waits weighted by load: no order changes it", kept, law, tolerance, "conservation law", "s")


def shortest_first(
    jobs: int = 40_000,
    loads: Mapping[float, float] = BIMODAL_LOADS,
    steps_per_short: int = 20,
) -> Iterator[Figure]:
    """Nine short jobs to one twenty times as long: FCFS, shortest first, least remaining first, on common arrivals."""
    step = SHORT_S / steps_per_short
    for load, tolerance in loads.items():
        rate = load / (SHORT_SHARE * SHORT_S + (1 - SHORT_SHARE) * LONG_S)
        means = {policy: _bimodal(policy, rate, jobs, step) for policy in ("fcfs", "sjf", "srtf")}
        for policy, theory in _bimodal_theory(rate).items():
            what = f"mean response under {policy} at load {load:g}"
            yield within(what, means[policy], theory[0], tolerance, theory[1], "s")
        gain = _bimodal_theory(rate)["fcfs"][0] / _bimodal_theory(rate)["srtf"][0]
        yield within(f"fcfs over srtf at load {load:g}", means["fcfs"] / means["srtf"], gain, tolerance, "the same", "times")


def _bimodal(policy: str, rate: float, jobs: int, step: float) -> float:
    """Mean response, seconds. Where nobody is interrupted the step's length changes nothing: as few steps as can be."""
    step = step if policy == "srtf" else SHORT_S
    rng = Random(SEED)
    arrivals = poisson(rng, rate, jobs)
    sizes = [SHORT_S if rng.random() < SHORT_SHARE else LONG_S for _ in arrivals]
    requests: list[Request] = [job(i, at, round(size / step)) for i, (at, size) in enumerate(zip(arrivals, sizes, strict=True))]
    params = {"preempt_below": 1.0} if policy == "srtf" else {}  # theory interrupts whenever it helps
    return play(requests, UnitCost(round(step * SECOND)), policy, params=params, max_num_seqs=1).mean_response_s()


def _bimodal_theory(rate: float) -> dict[str, tuple[float, str]]:
    """Policy → mean response in seconds, and whose formula it is."""
    mean = SHORT_SHARE * SHORT_S + (1 - SHORT_SHARE) * LONG_S
    second = SHORT_SHARE * SHORT_S**2 + (1 - SHORT_SHARE) * LONG_S**2
    sizes = [(rate * SHORT_SHARE, SHORT_S), (rate * (1 - SHORT_SHARE), LONG_S)]
    waits = waits_by_class(sizes)
    return {
        "fcfs": (mean + wait_fcfs(rate, mean, second), PK),
        "sjf": (mean + SHORT_SHARE * waits[0] + (1 - SHORT_SHARE) * waits[1], "Cobham"),
        "srtf": (response_srpt(rate, SHORT_S, LONG_S, SHORT_SHARE), "Schrage-Miller"),
    }


ONE_SERVER = tuple(
    Part(
        f"one server at load {load:g}, sizes known",
        shortest_first,
        quick={"jobs": 10_000, "loads": {load: quick}, "steps_per_short": 2},
        full={"loads": {load: full}},
    )
    for load, quick, full in ((0.5, 0.05, 0.05), (0.8, 0.15, 0.1))
)
QUEUEING = Experiment(
    name="queueing",
    says="The scheduler with one slot is the textbook's single server: mean times agree with closed forms, single waits with "
    "Lindley's recursion to the nanosecond, and the queue's length with the waits in it.",
    source="Pollaczek-Khinchine; Lindley, 1952; Little, 1961",
    parts=(
        Part("every single wait", single_waits, quick={"jobs": 3_000}),
        Part("Little's law", littles_law, full={"jobs": 20_000}),
        Part("jobs of one size", even_jobs, quick={"jobs": 10_000, "loads": {0.5: 0.03, 0.8: 0.03}}),
    ),
)
PRIORITY = Experiment(
    name="priority",
    says="Static classes on one server: what the better class gains is what the lower one loses, neither more nor less.",
    source="Cobham, 1954; Kleinrock's conservation law",
    parts=(Part("two classes", classes, quick={"jobs": 10_000, "tolerance": 0.06}),),
)
