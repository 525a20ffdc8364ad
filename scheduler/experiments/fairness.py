"""Two tenants, one of whom asks for twice as much: E1 of the literature. The server of the paper's own figures, an A10G."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scheduler.core.events import RequestQueued, StepCompleted
from scheduler.core.policies.base import Policy
from scheduler.core.policies.vtc import Vtc
from scheduler.core.request import Request
from scheduler.experiments.figure import OWN, Experiment, Figure, Part, at_most, within
from scheduler.experiments.record import SECOND, Record, job, play
from scheduler.experiments.unit_cost import UnitCost
from scheduler.metrics import jain

TOKENS = 256  # of each prompt, and of each output
INPUT_WEIGHT, OUTPUT_WEIGHT = 1, 2  # what a token counts, as in the paper
POOL = 10_000  # KV tokens, reserved at admission
STEP_NS, PREFILL_NS = 47_500_000, 220_000
ASKED = {"ann": 1.5, "bob": 3.0}  # requests a second, evenly spaced; the server does 1.4 of both together
BOUND = "2 · max(wp · L, wq · M), Sheng et al., OSDI'24"
ARTIFACT = "raw data of the paper's artifact"


class LeastCounter(Vtc):
    """The paper's LCF: VTC without the counter lift, to show what that is for."""

    def _lift(self, tenant: str, request: Request) -> None:
        self._used.setdefault(tenant, 0.0)


class Service:
    """Weighted tokens that each of two tenants was given, after every step of a run."""

    def __init__(self, run: Record, steps: Sequence[StepCompleted]) -> None:
        tenant_of = {event.seq: event.tenant for event in run.events if isinstance(event, RequestQueued)}
        given = {"ann": 0, "bob": 0}
        self._instants: list[int] = []
        self._given: list[tuple[int, int]] = []
        for step in steps:
            for number in step.decodes:
                given[tenant_of[number]] += OUTPUT_WEIGHT
            for number, tokens, emitted in step.chunks:
                given[tenant_of[number]] += INPUT_WEIGHT * tokens + OUTPUT_WEIGHT * emitted
            self._instants.append(step.ended_at)
            self._given.append((given["ann"], given["bob"]))

    def at(self, seconds: float) -> tuple[int, int]:
        """(Ann's, Bob's) up to an instant."""
        index = bisect_right(self._instants, seconds * SECOND)
        return self._given[index - 1] if index else (0, 0)

    def farthest_apart(self) -> int:
        """The largest difference at any instant."""
        return max(abs(ann - bob) for ann, bob in self._given)

    def share_of_ann(self, since: float, until: float) -> float:
        """Of what both were given between two instants."""
        (ann, bob), (ann_before, bob_before) = self.at(until), self.at(since)
        return (ann - ann_before) / (ann - ann_before + bob - bob_before)


def served(
    policy: str,
    seconds: float,
    rates: Mapping[str, float] = ASKED,
    *,
    pool: int = POOL,
    bob_begins: float = 0.0,
    params: Mapping[str, Any] | None = None,
    order: Policy | None = None,
) -> tuple[Service, Record]:
    """One run up to `seconds`, while both keep asking."""
    steps: list[StepCompleted] = []
    run = play(
        requests(rates, seconds, bob_begins),
        UnitCost(STEP_NS, PREFILL_NS),
        policy,
        params=params,
        order=order,
        until_s=seconds,
        on_step=steps.append,
        kv_cache_tokens=pool,
        allocation="reserve",
    )
    return Service(run, steps), run


def requests(rates: Mapping[str, float], seconds: float, bob_begins: float) -> list[Request]:
    """What each tenant asks for until `seconds`, evenly spaced."""
    due = []
    for tenant, rate in rates.items():
        begins = bob_begins if tenant == "bob" else 0.0
        due += [(round((begins + i / rate) * SECOND), tenant) for i in range(int((seconds - begins) * rate))]
    return [job(i, at, TOKENS, TOKENS, tenant=tenant) for i, (at, tenant) in enumerate(sorted(due))]


def difference(seconds: float = 600) -> Iterator[Figure]:
    """How far apart the tenants' service drifts."""
    (fcfs, in_order), (vtc, fair) = served("fcfs", seconds), served("vtc", seconds)
    yield at_most("largest difference of service at any instant, vtc", vtc.farthest_apart(), 4 * POOL, BOUND, "tokens")
    for instant, known in ((150, 55_250), (300, 111_094), (600, 221_194)):
        if instant <= seconds:
            ann, bob = fcfs.at(instant)
            yield within(f"difference of service after {instant} s, fcfs", bob - ann, known, 0.05, OWN, "tokens")
    ended = [sum(life.finished_at is not None for life in run.lives) for run in (fair, in_order)]
    ann, bob = fcfs.at(seconds)
    yield within("difference of service for each request served, fcfs", (bob - ann) / ended[1], 250.9, 0.05, ARTIFACT, "tokens")
    for name, service, ratio, tolerance in (("fcfs", fcfs, 2.0, 0.02), ("vtc", vtc, 1.0, 0.02)):
        ann, bob = service.at(seconds)
        yield within(
            f"Bob's service over Ann's, {name}", bob / ann, ratio, tolerance, "what they ask for" if ratio > 1 else BOUND
        )
    yield within("Jain's index, fcfs", jain(fcfs.at(seconds)) or 0, 0.8998, 0.01, ARTIFACT)
    yield within("Jain's index, vtc", jain(vtc.at(seconds)) or 0, 0.999999, 0.001, ARTIFACT)
    yield within("requests served, vtc over fcfs", ended[0] / ended[1], 1.0, 0.01, "fairness costs no throughput")


def bound_by_pool(seconds: float = 600, pools: Sequence[int] = (2_500, 5_000, 20_000)) -> Iterator[Figure]:
    """The bound follows the memory."""
    for pool in pools:
        service, _ = served("vtc", seconds, pool=pool)
        yield at_most(
            f"largest difference of service, vtc, {pool:,} KV tokens", service.farthest_apart(), 4 * pool, BOUND, "tokens"
        )


def weights(seconds: float = 600) -> Iterator[Figure]:
    """Bob paid for twice as much."""
    service, _ = served("vtc", seconds, {"ann": 3.0, "bob": 3.0}, params={"weight.bob": 2.0})
    ann, bob = service.at(seconds)
    yield within("Bob's service over Ann's, vtc, Bob's weight 2", bob / ann, 2.0, 0.02, "their weights")


def lift(idle: float = 300, after: float = 120) -> Iterator[Figure]:
    """Bob comes late: what he did not use is not saved up."""
    both = {"ann": 2.0, "bob": 2.0}
    lifted, _ = served("vtc", idle + after, both, bob_begins=idle)
    hoarded, _ = served("vtc", idle + after, both, bob_begins=idle, order=LeastCounter())
    yield within("Ann's share once Bob has come, vtc", lifted.share_of_ann(idle, idle + after), 0.5, 0.1, "counter lift")
    ours = hoarded.share_of_ann(idle, idle + after)
    yield at_most("the same without the lift (the paper's LCF)", ours, 0.1, "what hoarded credit does")


VTC = Experiment(
    name="vtc",
    says="Ann asks for 1.5 requests a second, Bob for 3, and the server can do 1.4. First come, first served gives Bob twice "
    "as much, and the difference grows for ever. With virtual token counters both get the same, up to a bound at any instant, "
    "and no throughput is lost.",
    source="VTC (Sheng et al., OSDI'24)",
    parts=(
        Part("two tenants", difference),
        Part("the bound follows the memory", bound_by_pool),
        Part("weights", weights),
        Part("who was idle saves nothing up", lift),
    ),
)
