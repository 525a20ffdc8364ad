"""How fast a simulation is: `python -m benchmarks.simulate`. The engine's own loop on a clock that jumps; no process, no disk.

Poisson arrivals, prompts that share nothing, log-normal outputs. Timed from making the first request to the last figure of
the metrics, which fold the whole event log. The best of several rounds is kept; every round is the same run, to the event.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.measure import report  # noqa: E402
from scheduler import metrics  # noqa: E402
from scheduler.core.events import Event, StepCompleted  # noqa: E402
from scheduler.core.request import Request, SamplingParams  # noqa: E402
from scheduler.runners import cost_model  # noqa: E402
from scheduler.runners.simulated import SimulatedRunner  # noqa: E402
from scheduler.settings import SchedulerSettings  # noqa: E402
from scheduler.simulate import Simulation, Trace  # noqa: E402

SEED = 1
SHAPE = (4.6, 0.8)  # of the outputs' logarithm: 136 tokens on average
LONGEST_OUTPUT = 2048
NS = 1_000_000_000


def requests(args: argparse.Namespace) -> Iterator[Request]:
    """The trace, request by request: no two prompts share a block."""
    rng, at = random.Random(SEED), 0.0
    rest = array("I", bytes(4 * (args.prompt - 1)))
    for n in range(args.requests):
        at += rng.expovariate(args.rate)
        output = min(max(1, round(rng.lognormvariate(*SHAPE))), LONGEST_OUTPUT)
        yield Request(
            str(n), array("I", [n]) + rest, SamplingParams(max_tokens=output, ignore_eos=True), received_at=int(at * NS)
        )


def figures(events: list[Event], args: argparse.Namespace) -> dict[str, Any]:
    """What a report says of the run."""
    lives = list(metrics.lives(events).values())
    waiting, single = metrics.little(lives)
    assert waiting == single, "Little's law does not hold"
    return {
        "output_tokens": sum(life.output_tokens for life in lives),
        "ttft_ms_p50": metrics.percentile(sorted(life.ttft / 1e6 for life in lives if life.ttft is not None), 50),
        "attainment": metrics.attainment(lives, args.slo_ttft_ms, args.slo_tpot_ms),
        "waits": metrics.waits(lives),
    }


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """One round."""
    cost = cost_model.load(args.hardware)
    changes = {
        "policy": args.policy,
        "max_num_seqs": 256,
        "max_num_batched_tokens": 8192,
        "max_model_len": 32_768,
        "max_num_queued_reqs": 1_000_000,
        "kv_cache_tokens": cost.kv_capacity_tokens,
        "enable_prefix_caching": not args.no_prefix_caching,
    }
    events: list[Event] = []
    began, cpu = time.perf_counter(), time.process_time()
    runner = SimulatedRunner(cost, silent=True)
    simulation = Simulation(SchedulerSettings().change(changes), runner, Trace(requests(args)), events.extend)
    progress = simulation.run()
    told = figures(events, args)
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    steps = [event for event in events if isinstance(event, StepCompleted)]
    slices = sum(len(step.decodes) + len(step.chunks) for step in steps)
    return {
        "seconds": round(took, 3),
        "cpu_seconds": round(cpu, 3),
        "requests_s": round(progress.finished / took),
        "steps_s": round(progress.steps / took),
        "slices_s": round(slices / took),
        "times_real": round(progress.now / NS / took),
        "simulated_s": round(progress.now / NS, 1),
        "requests": progress.finished,
        "steps": progress.steps,
        "slices": slices,
        **told,
    }


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--prompt", type=int, default=256, help="prompt tokens")
    parser.add_argument("--rate", type=float, default=25.0, help="requests a second")
    parser.add_argument("--hardware", default=cost_model.DEFAULT_HARDWARE)
    parser.add_argument("--policy", default="fcfs")
    parser.add_argument("--no-prefix-caching", action="store_true", help="no block is hashed")
    parser.add_argument("--slo-ttft-ms", type=float, default=1000.0)
    parser.add_argument("--slo-tpot-ms", type=float, default=50.0)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    rounds = [measure(args) for _ in range(args.rounds)]
    best = min(rounds, key=lambda each: float(each["seconds"]))
    report("simulate", {**vars(args), **best})


if __name__ == "__main__":
    main()
