"""A polite tenant beside a noisy one, on a simulated clock: vtc keeps its TTFT near that of being alone, fcfs does not.

The noisy users never pause, so the queue is as long as they are many. The live twin, with a server, is in tests/end_to_end.
"""

from __future__ import annotations

import random

import pytest

from scheduler import metrics
from scheduler.core.events import Event, RequestFinished
from scheduler.core.request import Request, SamplingParams
from scheduler.runners.cost_model import load
from scheduler.runners.simulated import SimulatedRunner
from scheduler.settings import SchedulerSettings
from scheduler.simulate import Simulation

NS = 1_000_000_000
SECONDS, POLITE_S = 30, 1.2
HARDWARE = "rtx4090-llama3.1-8b-tp1-bf16"


class Neighbours:
    """Tenant `a` asks every POLITE_S seconds, give or take a tenth; each user of `b` asks when he was answered."""

    def __init__(self, users: int) -> None:
        self._chance = random.Random(7)
        polite = [int((1 + i + self._chance.uniform(-0.1, 0.1)) * POLITE_S * NS) for i in range(int(SECONDS / POLITE_S))]
        self._coming = [(at, "a") for at in polite] + [(NS // 2, "b")] * users
        self._coming.sort(reverse=True)
        self._made = 0

    def next_at(self) -> int | None:
        return self._coming[-1][0] if self._coming else None

    def take(self) -> Request:
        at, tenant = self._coming.pop()
        self._made += 1
        prompt, output = (2000, 30) if tenant == "a" else (30, round(self._chance.uniform(8, 32)))
        tokens = [self._chance.randrange(1 << 20) for _ in range(prompt)]
        params = SamplingParams(max_tokens=output, ignore_eos=True)
        return Request(f"{tenant}{self._made}", tokens, params, received_at=at, tenant=tenant)

    def finished(self, event: RequestFinished) -> None:
        if event.id.startswith("b") and event.at < SECONDS * NS:
            self._coming.append((event.at, "b"))
            self._coming.sort(reverse=True)


def polite_ttft_ms(policy: str, users: int) -> list[float]:
    """TTFT of `a`'s requests in order of arrival."""
    settings = SchedulerSettings(
        policy=policy, max_num_seqs=32, max_num_batched_tokens=4096, max_model_len=4096, kv_cache_tokens=40_000
    )
    events: list[Event] = []
    Simulation(settings, SimulatedRunner(load(HARDWARE)), Neighbours(users), events.extend).run()
    return [(life.ttft or 0) / 1e6 for life in metrics.lives(events).values() if life.tenant == "a"]


def p95(times: list[float]) -> float:
    found = metrics.percentile(sorted(times), 95)
    assert found is not None and len(times) == int(SECONDS / POLITE_S)
    return found


def test_under_vtc_the_polite_tenant_hardly_feels_the_noisy_one_and_under_fcfs_it_waits_behind_all_of_it() -> None:
    alone = p95(polite_ttft_ms("fcfs", 0))
    assert p95(polite_ttft_ms("vtc", 300)) <= 1.5 * alone
    few, many = p95(polite_ttft_ms("fcfs", 100)), p95(polite_ttft_ms("fcfs", 300))
    assert many > 2 * few > 8 * alone


@pytest.mark.parametrize("policy", ["fcfs", "vtc"])
def test_alone_a_tenant_is_served_the_same_by_any_policy(policy: str) -> None:
    assert polite_ttft_ms(policy, 0) == polite_ttft_ms("lifo", 0)
