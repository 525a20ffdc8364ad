"""Goodput past capacity on a simulated clock (E14): bounded collapses, shed stays at its peak. Counts of requests only."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from scheduler.core.blocks import BlockPool
from scheduler.core.events import Event, RequestFinished
from scheduler.core.policies import catalog
from scheduler.core.request import FinishReason, Request, SamplingParams
from scheduler.core.scheduler import Scheduler
from scheduler.engine.clock import JumpClock
from scheduler.runners.cost_model import load
from scheduler.runners.simulated import SimulatedRunner
from scheduler.settings import SchedulerSettings

NS = 1_000_000_000
SLO_NS = NS
WARM_S, MEASURED_S = 10.0, 20.0
HARDWARE = "h100-llama-3.1-8b-tp1-bf16"
Length = Callable[[random.Random], tuple[int, int]]


@dataclass
class Outcome:
    """What became of the requests that were due in the measured part of a run."""

    due: int = 0
    good: int = 0
    late: int = 0
    shed: int = 0
    waiting: int = 0
    refused_on_idle: int = 0


def prompts_bind(chance: random.Random) -> tuple[int, int]:
    """E14's lengths: prefill is the scarce thing."""
    return chance.randint(200, 1800), chance.randint(50, 250)


def slots_bind(chance: random.Random) -> tuple[int, int]:
    """Short prompts, long answers: slots are the scarce thing."""
    return chance.randint(10, 60), chance.randint(50, 250)


def arrivals(rate: float, seconds: float, lengths: Length) -> list[Request]:
    """A Poisson process of requests that share no prefix."""
    chance, at, found = random.Random(7), 0.0, list[Request]()
    while (at := at + chance.expovariate(rate)) < seconds:
        prompt, output = lengths(chance)
        tokens = [chance.randrange(1 << 20) for _ in range(prompt)]
        found.append(Request(f"r{len(found)}", tokens, SamplingParams(max_tokens=output), received_at=round(at * NS)))
    return found


def offer(
    rate: float, lengths: Length, *, seconds: float = WARM_S + MEASURED_S, warm_s: float = WARM_S, **settings: object
) -> Outcome:
    """Offer `rate` requests a second, open loop; count those due after `warm_s`."""
    limits = SchedulerSettings(
        max_num_batched_tokens=1024, max_model_len=4096, kv_cache_tokens=400_000, ttft_slo_ms=SLO_NS // 1_000_000
    ).change(settings)
    pool = BlockPool(limits.kv_cache_tokens // 16, 16, False)
    scheduler = Scheduler(limits, pool, catalog.make(limits.policy, limits.policy_params, pool))
    runner, clock, outcome = SimulatedRunner(load(HARDWARE)), JumpClock(), Outcome()
    coming = arrivals(rate, seconds, lengths)
    asked = {request.id: request for request in coming}
    coming.reverse()
    while coming:
        if scheduler.idle:
            clock.advance(max(clock.now(), coming[-1].received_at))
        while coming and coming[-1].received_at <= clock.now():
            idle = scheduler.idle
            count(outcome, scheduler.add(coming.pop(), clock.now()), asked, warm_s, idle)
        plan = scheduler.schedule(clock.now())
        output = runner.run(plan)
        count(outcome, scheduler.commit(plan, output, clock.finish_step(plan.started_at, output.elapsed)), asked, warm_s)
    for request in asked.values():
        if request.received_at >= warm_s * NS:
            first = request.first_token_at
            outcome.due += 1
            outcome.good += first is not None and first - request.received_at <= SLO_NS
            outcome.late += first is not None and first - request.received_at > SLO_NS
            outcome.waiting += first is None and request.id in scheduler.requests
    return outcome


def count(outcome: Outcome, events: list[Event], asked: dict[str, Request], warm_s: float, idle: bool = False) -> None:
    for event in events:
        if isinstance(event, RequestFinished) and event.reason is FinishReason.REJECTED:
            assert event.detail in ("shed", "queue_full")
            outcome.refused_on_idle += idle
            outcome.shed += asked[event.id].received_at >= warm_s * NS


@pytest.mark.parametrize(("lengths", "slots", "capacity"), [(prompts_bind, 128, 30.5), (slots_bind, 32, 30.0)])
def test_past_capacity_shed_keeps_its_goodput_and_bounded_collapses(lengths: Length, slots: int, capacity: float) -> None:
    for times in (1.2, 2.0, 5.0):
        shed = offer(times * capacity, lengths, max_num_seqs=slots, admission="shed")
        assert shed.good >= 0.95 * capacity * MEASURED_S, (times, shed)
        assert shed.late <= 0.02 * shed.good, "what is admitted must meet its bound"
        assert shed.refused_on_idle == 0 and shed.due == shed.good + shed.late + shed.shed + shed.waiting
    bounded = offer(2 * capacity, lengths, max_num_seqs=slots, admission="bounded")
    assert bounded.good <= 0.1 * capacity * MEASURED_S and bounded.shed == 0


def test_below_capacity_nobody_is_shed() -> None:
    below = offer(0.8 * 30.5, prompts_bind, max_num_seqs=128, admission="shed")
    assert (below.shed, below.late) == (0, 0) and below.good >= 0.99 * below.due


@pytest.mark.parametrize("policy", ["priority", "edf", "sjf", "priority_aging"])
def test_shedding_asks_no_policy(policy: str) -> None:
    outcome = offer(60.0, prompts_bind, max_num_seqs=128, admission="shed", policy=policy)
    assert outcome.good >= 0.8 * 30.5 * MEASURED_S and outcome.shed
