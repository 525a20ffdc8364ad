"""Laws that relate two runs: what must not change when something else does, and what must change with it.

No figure is known in advance here: each law holds for any workload, so the workload is random, with little memory, so that
preemptions are part of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from scheduler.core.events import RequestPreempted
from scheduler.core.policies.catalog import CATALOG
from scheduler.core.request import Request
from scheduler.experiments.record import MS, Record, job, play
from scheduler.experiments.unit_cost import UnitCost

STEP, PREFILL = 10 * MS, MS // 10
TIGHT: dict[str, Any] = {
    "max_num_seqs": 6,
    "max_num_batched_tokens": 48,
    "kv_cache_tokens": 16 * 16,
    "max_num_queued_reqs": 10_000,
}
Fields = Callable[[random.Random, int], dict[str, Any]]


def varied(rng: random.Random, at: int) -> dict[str, Any]:
    """Classes, kinds, tenants, deadlines and hints."""
    return {
        "priority": rng.randrange(4),
        "kind": rng.choice(["interactive", "batch"]),
        "tenant": rng.choice(["ann", "bob", "cyd"]),
        "deadline_at": at + rng.randrange(1, 40) * 100 * MS,
        "expected_output_tokens": rng.randrange(1, 120),
    }


def workload(fields: Fields = varied, *, scale: int = 1, output: int | None = None, seed: int = 3) -> list[Request]:
    """120 requests, somewhat more than can be served; all times multiplied by `scale`."""
    rng, at, requests = random.Random(seed), 0, []
    for i in range(120):
        at += rng.randrange(1, 150) * MS
        prompt, tokens = rng.randrange(1, 40), rng.randrange(1, 120)
        extra = fields(rng, at)
        if extra.get("deadline_at") is not None:
            extra["deadline_at"] *= scale
        requests.append(job(i, at * scale, output or tokens, 20 if output else prompt, **extra))
    return requests


def run(
    requests: list[Request], policy: str, *, scale: int = 1, params: dict[str, float] | None = None, **limits: Any
) -> Record:
    settings: dict[str, Any] = TIGHT | limits
    return play(requests, UnitCost(STEP * scale, PREFILL * scale), policy, params=params, **settings)


def times(record: Record, scale: int = 1) -> list[tuple[int | None, ...]]:
    """Each request's instants, in the order of arrival, divided by `scale`."""
    rows = [(life.scheduled_at, life.first_token_at, life.finished_at) for life in record.lives]
    assert all(at is not None and at % scale == 0 for row in rows for at in row)
    return [tuple(None if at is None else at // scale for at in row) for row in rows]


def scaled(policy: str, by: int) -> dict[str, float]:
    """The policy's parameters that are times, `by` times as long."""
    return {param.name: param.default * by for param in CATALOG[policy].params if param.name.endswith("_ms")}


def none(rng: random.Random, at: int) -> dict[str, Any]:
    return {}


SCALABLE = [name for name in CATALOG if name != "weighted_score"]  # its factors know seconds: a deadline counts up to 60 s


@pytest.mark.parametrize("policy", SCALABLE)
def test_all_times_three_times_as_long_make_all_latencies_three_times_as_long(policy: str) -> None:
    base = run(workload(), policy, params=scaled(policy, 1))
    assert times(run(workload(scale=3), policy, scale=3, params=scaled(policy, 3)), 3) == times(base)
    assert times(run(workload(scale=3), policy, params=scaled(policy, 3))) != times(base), (
        "a step of the same length is another run"
    )


@pytest.mark.parametrize("policy", CATALOG)
def test_other_ids_change_nothing(policy: str) -> None:
    requests = workload()
    names = [request.id for request in requests]
    random.Random(9).shuffle(names)
    renamed = workload()
    for request, name in zip(renamed, names, strict=True):
        request.id = name
    assert times(run(renamed, policy)) == times(run(requests, policy))


@pytest.mark.parametrize("policy", ["vtc", "deficit_round_robin"])
def test_one_tenant_is_first_come_first_served(policy: str) -> None:
    assert times(run(workload(none), policy)) == times(run(workload(none), "fcfs"))
    assert times(run(workload(), policy)) != times(run(workload(), "fcfs")), "with several tenants it is another order"


def test_equal_lengths_make_shortest_first_first_come_first_served() -> None:
    assert times(run(workload(none, output=25), "sjf")) == times(run(workload(none, output=25), "fcfs"))
    assert times(run(workload(none), "sjf")) != times(run(workload(none), "fcfs"))


def test_equal_relative_deadlines_make_edf_first_come_first_served() -> None:
    def patient(rng: random.Random, at: int) -> dict[str, Any]:
        return {"deadline_at": at + 700 * MS}

    assert times(run(workload(patient), "edf")) == times(run(workload(patient), "fcfs"))
    assert times(run(workload(), "edf")) != times(run(workload(), "fcfs"))


def test_an_endless_budget_makes_chunks_whole_prompts() -> None:
    def chunked(on: bool, budget: int) -> list[tuple[int | None, ...]]:
        return times(run(workload(), "fcfs", max_num_batched_tokens=budget, enable_chunked_prefill=on))

    assert chunked(True, 1 << 15) == chunked(False, 1 << 15)
    assert chunked(True, 48) != chunked(False, 48)


def test_fcfs_never_reorders_and_sjf_does() -> None:
    in_order = [life.scheduled_at for life in run(workload(), "fcfs").lives]
    assert in_order == sorted(in_order, key=lambda at: at or 0)
    by_length = [life.scheduled_at for life in run(workload(), "sjf").lives]
    assert by_length != sorted(by_length, key=lambda at: at or 0)


def test_the_workload_runs_out_of_memory_and_ends() -> None:
    record = run(workload(), "fcfs")
    assert sum(isinstance(event, RequestPreempted) for event in record.events) > 20
    assert all(life.finished_at is not None for life in record.lives)
