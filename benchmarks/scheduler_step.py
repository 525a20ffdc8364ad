"""What the scheduler itself costs a step: `python -m benchmarks.scheduler_step`. No runner, no text, no pair.

steady   every slot decodes, the others wait; nothing changes but tokens and block boundaries (staggered)
churn    in every step some requests finish, as many arrive and are admitted
Only schedule + commit are timed (and, for churn, not the arrivals). 128 to 143 prompt tokens, blocks of 16, prefix
cache, wait clocks, events and statistics on. The best of several interleaved rounds is kept, by mean.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.measure import report, summary  # noqa: E402
from scheduler.core.blocks import BlockPool  # noqa: E402
from scheduler.core.plan import StepOutput  # noqa: E402
from scheduler.core.policies import catalog  # noqa: E402
from scheduler.core.request import Request, SamplingParams  # noqa: E402
from scheduler.core.scheduler import Scheduler  # noqa: E402
from scheduler.settings import SchedulerSettings  # noqa: E402

BLOCK = 16
STEP_NS = 10_000_000
CHANGES = 4


class Engine:
    """A scheduler with `running` decodes and `waiting` requests behind them."""

    def __init__(self, policy: str, running: int, waiting: int, *, churn: bool) -> None:
        tokens = running * (143 + 2048) * 2
        changes = {
            "policy": policy,
            "max_num_seqs": running,
            "max_num_batched_tokens": 8192,
            "kv_cache_tokens": tokens,
            "max_num_queued_reqs": 1_000_000,
        }
        settings = SchedulerSettings().change(changes)
        pool = BlockPool(tokens // BLOCK, BLOCK, True)
        self.scheduler = Scheduler(settings, pool, catalog.make(policy, {}, pool), boot=1)
        self.churn, self.running = churn, running
        self.now = 0
        self.serial = itertools.count()
        for _ in range(running + waiting):
            self.arrive()
        while self.step()[0].chunks:
            pass

    def arrive(self) -> None:
        """One more request, unlike all others in its prompt."""
        n = next(self.serial)
        output = (self.running // CHANGES) + n % CHANGES if self.churn else 2000
        prompt = [n & 0xFFFF, n >> 16, *range(n % 97, n % 97 + 126 + n % 16)]
        fields: dict[str, Any] = {"priority": n % 3, "tenant": f"t{n % 5}", "deadline_at": self.now + (n % 7 + 1) * 10**9}
        self.scheduler.add(Request(str(n), prompt, SamplingParams(max_tokens=output), received_at=self.now, **fields), self.now)

    def step(self) -> tuple[Any, float]:
        """One step: the plan, and the microseconds of schedule + commit."""
        began = time.perf_counter_ns()
        plan = self.scheduler.schedule(self.now)
        middle = time.perf_counter_ns()
        output = StepOutput([5] * len(plan.sampling), STEP_NS)
        self.now += STEP_NS
        resumed = time.perf_counter_ns()
        self.scheduler.commit(plan, output, self.now)
        return plan, (middle - began + time.perf_counter_ns() - resumed) / 1e3

    def measure(self, steps: int) -> dict[str, float]:
        """So many steps, timed one by one."""
        took = []
        for _ in range(steps):
            took.append(self.step()[1])
            while self.churn and self.scheduler.waiting < CHANGES:
                self.arrive()
        return summary(took)


def cases(args: argparse.Namespace) -> Iterator[tuple[str, str, int, int]]:
    """(kind, policy, running, waiting) of every case asked for."""
    policies = list(catalog.CATALOG) if args.policy == "all" else args.policy.split(",")
    for kind, policy, running, waiting in itertools.product(("steady", "churn"), policies, args.running, args.waiting):
        if args.only in (None, kind):
            yield kind, policy, running, waiting


def main() -> None:
    """Parse, measure, print."""
    numbers = lambda text: [int(part) for part in text.split(",")]  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--running", type=numbers, default=[64, 256])
    parser.add_argument("--waiting", type=numbers, default=[0, 1000])
    parser.add_argument("--policy", default="fcfs", help="a name, several with commas, or all")
    parser.add_argument("--only", choices=("steady", "churn"))
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    best: dict[tuple[str, str, int, int], dict[str, float]] = {}
    for _ in range(args.rounds):
        for case in cases(args):
            kind, policy, running, waiting = case
            engine = Engine(policy, running, waiting, churn=kind == "churn")
            gc.collect()
            gc.freeze()
            took = engine.measure(args.steps)
            gc.unfreeze()
            if case not in best or took["mean"] < best[case]["mean"]:
                best[case] = took
    names = ("kind", "policy", "running", "waiting")
    report("scheduler_step", [dict(zip(names, case, strict=True)) | {"us": took} for case, took in best.items()])


if __name__ == "__main__":
    main()
