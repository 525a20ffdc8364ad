"""More work than can be done: goodput with and without shedding. E14 of the literature. On a simulated H100."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from scheduler.core.request import FinishReason, Request
from scheduler.experiments.figure import Experiment, Figure, Part, at_least, at_most
from scheduler.experiments.record import SECOND, SEED, Record, job, play, poisson
from scheduler.runners.cost_model import DEFAULT_HARDWARE, load
from scheduler.runners.simulated import SimulatedRunner

CAPACITY = 30.5  # requests a second of this mix, by a separate simulator of ours
TTFT_SLO_S = 1.0
SETTINGS = {"max_num_seqs": 128, "max_num_batched_tokens": 1024}


def mixed_requests(rate: float, seconds: float) -> list[Request]:
    """Prompts of 200 to 1,800 tokens, outputs of 50 to 250, due a second after they come."""
    rng = Random(SEED)
    arrivals = [at for at in poisson(rng, rate, round(1.2 * rate * seconds) + 100) if at < seconds * SECOND]
    due = round(TTFT_SLO_S * SECOND)
    return [job(i, at, rng.randrange(50, 251), rng.randrange(200, 1801), deadline_at=at + due) for i, at in enumerate(arrivals)]


def good(run: Record, seconds: float) -> float:
    """Requests a second whose first token came in time, of all that arrived within `seconds`."""
    return sum(life.ttft is not None and life.ttft <= TTFT_SLO_S * SECOND for life in run.lives) / seconds


def served(policy: str, load_share: float, seconds: float, **settings: Any) -> Record:
    """One run at a share of capacity, to its end."""
    runner = SimulatedRunner(load(DEFAULT_HARDWARE))
    changes: dict[str, Any] = {**SETTINGS, **settings}
    return play(mixed_requests(load_share * CAPACITY, seconds), runner, policy, **changes)


def goodput(seconds: float = 240, loads: Sequence[float] = (1.2, 1.5, 2.0, 3.0)) -> Iterator[Figure]:
    """First tokens in time a second: first come first served, deadlines first, newest first, and with shedding."""
    below = good(served("fcfs", 0.9, seconds), seconds)
    yield at_least("in time under fcfs at 0.9 of capacity", below, 0.9 * 0.9 * CAPACITY, "nine tenths of what came", "/s")
    for share in loads:
        at = f"at {share:g} of capacity"
        for policy in ("fcfs", "edf"):
            ours = good(served(policy, share, seconds), seconds)
            yield at_most(
                f"in time under {policy} {at}", ours, 0.1 * CAPACITY * max(1, 240 / seconds), "the domino: a tenth", "/s"
            )
        newest = good(served("lifo", share, seconds), seconds)
        yield at_least(f"in time under lifo {at}", newest, 0.9 * CAPACITY, "nine tenths of capacity", "/s")
        shed = served("fcfs", share, seconds, admission="shed", ttft_slo_ms=round(TTFT_SLO_S * 1000), shed_safety=1.2)
        yield at_least(f"in time under fcfs with shedding {at}", good(shed, seconds), 0.95 * CAPACITY, "0.95 of capacity", "/s")
        admitted = [life for life in shed.lives if life.reason is not FinishReason.REJECTED]
        kept = good(shed, seconds) * seconds / len(admitted)
        yield at_least(f"share of the admitted in time {at}", kept, 0.9, "what is admitted is served in time")


SHED = Experiment(
    name="shed",
    says="More requests than can be served, each wanting its first token within a second. Serving all in order, or the nearest "
    "deadline first, serves nearly everybody too late; turning away at once whoever would be late keeps goodput at capacity.",
    source="Niyama (Goel et al., 2025) and QLM (Patke et al., 2024) for the effect",
    parts=(Part("goodput past capacity", goodput, quick={"seconds": 40, "loads": (1.5,)}),),
)
