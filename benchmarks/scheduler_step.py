"""What the scheduler itself costs: `python -m benchmarks.scheduler_step`. No runner, no text, no pair.

steady   every slot decodes, the others wait; nothing changes but tokens and block boundaries (staggered). Where the order
         displaces those that run for those that wait, steps in which the decodes changed are told apart: `changing`, so many
         of them, with `changing_cpu` µs each, for `displaced` requests
churn    in every step four requests finish, four arrive and four are admitted, KV memory nearly full (`kv_used` says how full);
         those that run at first were there before the others, so that they end in turn whatever the order
add      building a request of 128 tokens and adding it to so many that wait, and what one of them holds in memory
abort    aborting requests that wait, anywhere in the queue, one call each; `all`: every one of them, in the order of arrival
Of steps only schedule + commit are timed (for churn, not the arrivals). 128 to 143 prompt tokens, blocks of 16, prefix
cache, wait clocks, events and statistics on. The best of several interleaved rounds is kept: of steps by `cpu`, the mean by
the thread's own clock, which other work on the machine disturbs less; else by mean.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import random
import sys
import time
import tracemalloc
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.measure import progress, report, summary  # noqa: E402
from scheduler.core.blocks import BlockPool  # noqa: E402
from scheduler.core.plan import StepOutput, StepPlan  # noqa: E402
from scheduler.core.policies import catalog  # noqa: E402
from scheduler.core.request import Request, SamplingParams  # noqa: E402
from scheduler.core.scheduler import Scheduler  # noqa: E402
from scheduler.settings import SchedulerSettings  # noqa: E402

BLOCK = 16
STEP_NS = 10_000_000
CHANGES = 4
FULL = 0.95
KINDS = ("steady", "churn", "add", "abort")
ADDED = 2000
ABORTED = 2000
WEIGHED = 2000


class Engine:
    """A scheduler with `running` decodes and `waiting` requests behind them."""

    def __init__(self, policy: str, running: int, waiting: int, *, churn: bool = False) -> None:
        blocks = blocks_in_use(running) if churn else running * (143 + 2048) * 2 // BLOCK
        changes = {
            "policy": policy,
            "max_num_seqs": running,
            "max_num_batched_tokens": running * 144,  # all come in at once
            "kv_cache_tokens": blocks * BLOCK,
            "max_num_queued_reqs": 1_000_000,
        }
        settings = SchedulerSettings().change(changes)
        pool = BlockPool(blocks, BLOCK, True)
        self.scheduler = Scheduler(settings, pool, catalog.make(policy, {}, pool), boot=1)
        self.churn, self.running, self.waiting = churn, running, max(waiting, CHANGES if churn else 0)
        self.now = 0
        self.serial = itertools.count()
        for _ in range(running):
            self.arrive()
        self.step()
        for _ in range(waiting):
            self.arrive()
        for _ in range(running // 2 if churn else 2):  # the second of the steady ones is the first in which all decode
            self.step()
            self.replace()

    def arrive(self) -> None:
        """One more request, unlike all others in its prompt."""
        n = next(self.serial)
        self.scheduler.add(self.build(n, array("I", [n & 0xFFFF, n >> 16, *range(n % 97, n % 97 + 126 + n % 16)])), self.now)

    def replace(self) -> None:
        """Of a churn: as many come as were admitted."""
        while self.churn and self.scheduler.waiting < self.waiting:
            self.arrive()

    def build(self, n: int, prompt: array[int]) -> Request:
        """A request; the first ones of a churn end one after another, as if they had come so."""
        output = 2000
        if self.churn:
            output = n // CHANGES + 1 if n < self.running else self.running // CHANGES
        fields: dict[str, Any] = {"priority": n % 3, "tenant": f"t{n % 5}", "deadline_at": self.now + (n % 7 + 1) * 10**9}
        return Request(str(n), prompt, SamplingParams(max_tokens=output), received_at=self.now, **fields)

    def step(self) -> tuple[StepPlan, float, float]:
        """One step: the plan, and the microseconds of schedule + commit, passed and by the thread's own clock."""
        cpu = -time.thread_time_ns()
        began = time.perf_counter_ns()
        plan = self.scheduler.schedule(self.now)
        middle = time.perf_counter_ns()
        cpu += time.thread_time_ns()
        output = StepOutput([5] * len(plan.sampling), STEP_NS)
        self.now += STEP_NS
        cpu -= time.thread_time_ns()
        resumed = time.perf_counter_ns()
        self.scheduler.commit(plan, output, self.now)
        ended = time.perf_counter_ns()
        cpu += time.thread_time_ns()
        return plan, (middle - began + ended - resumed) / 1e3, cpu / 1e3

    def measure(self, steps: int) -> dict[str, float]:
        """So many steps, timed one by one; of the steady state, those in which nothing changed."""
        took, changing, displaced = list[tuple[float, float]](), list[float](), 0
        for _ in range(steps):
            plan, passed, cpu = self.step()
            displaced += plan.preempted
            if self.churn or not plan.changed:
                took.append((passed, cpu))
            else:
                changing.append(cpu)
            self.replace()
        assert took, "the decodes changed in every step: this is no steady state"
        pool = self.scheduler.pool
        figures = summary([passed for passed, _ in took]) | {"cpu": round(sum(cpu for _, cpu in took) / len(took), 1)}
        if changing:
            figures |= {
                "changing": len(changing),
                "changing_cpu": round(sum(changing) / len(changing), 1),
                "displaced": displaced,
            }
        return figures | {"kv_used": round(1 - pool.free / pool.total, 3)}


def blocks_in_use(running: int) -> int:
    """So many blocks that a churn of `running` requests holds FULL of them: prompts of 135 tokens, at half of their outputs."""
    return int(running * ((135 + running / CHANGES / 2) / BLOCK + 0.5) / FULL)


def timed(call: Callable[[], object]) -> float:
    """Microseconds of one call."""
    began = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - began) / 1e3


def add(policy: str, running: int, waiting: int) -> dict[str, float]:
    """Build + add, µs; `bytes`: of one that waits, everything it holds."""
    engine = Engine(policy, running, waiting)
    prompts = [array("I", range(n, n + 128)) for n in range(ADDED)]
    first, scheduler = next(engine.serial), engine.scheduler

    def one(n: int, prompt: array[int]) -> None:
        scheduler.add(engine.build(n, prompt), engine.now)

    took = [timed(lambda n=n, prompt=prompt: one(first + n, prompt)) for n, prompt in enumerate(prompts)]  # type: ignore[misc]
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for n in range(WEIGHED):
        one(first + ADDED + n, array("I", range(n, n + 128)))
    each = (tracemalloc.get_traced_memory()[0] - before) / WEIGHED
    tracemalloc.stop()
    return summary(took) | {"bytes": round(each)}


def abort(policy: str, running: int, waiting: int) -> dict[str, float]:
    """One at a time from anywhere, then all of the others."""
    engine = Engine(policy, running, waiting)
    ids = [id for id, request in engine.scheduler.requests.items() if request.slot < 0]
    chosen = random.Random(1).sample(ids, min(ABORTED, len(ids)))
    took = [timed(lambda id=id: engine.scheduler.abort(id, engine.now)) for id in chosen]  # type: ignore[misc]
    left = [id for id in ids if id in engine.scheduler.requests]
    rest = [timed(lambda id=id: engine.scheduler.abort(id, engine.now)) for id in left or ids]  # type: ignore[misc]
    return summary(took) | {f"all_{name}": value for name, value in summary(rest).items()}


def cases(args: argparse.Namespace) -> Iterator[tuple[str, str, int, int]]:
    """(kind, policy, running, waiting) of every case asked for."""
    policies = list(catalog.CATALOG) if args.policy == "all" else args.policy.split(",")
    for kind, policy, running, waiting in itertools.product(args.only or KINDS[:2], policies, args.running, args.waiting):
        if kind != "abort" or waiting:
            yield kind, policy, running, waiting


def measure(kind: str, policy: str, running: int, waiting: int, steps: int) -> dict[str, float]:
    """One case, once."""
    if kind in ("add", "abort"):
        return (add if kind == "add" else abort)(policy, running, waiting)
    engine = Engine(policy, running, waiting, churn=kind == "churn")
    gc.collect()
    gc.freeze()
    took = engine.measure(steps)
    gc.unfreeze()
    return took


def _worth(took: dict[str, float]) -> float:
    return took.get("cpu", took["mean"])


def main() -> None:
    """Parse, measure, print."""
    numbers = lambda text: [int(part) for part in text.split(",")]  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--running", type=numbers, default=[64, 256])
    parser.add_argument("--waiting", type=numbers, default=[0, 1000])
    parser.add_argument("--policy", default="fcfs", help="a name, several with commas, or all")
    parser.add_argument(
        "--only", type=lambda text: text.split(","), help=f"some of {', '.join(KINDS)}; steady and churn if left out"
    )
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="it is always JSON")
    args = parser.parse_args()
    if unknown := [kind for kind in args.only or () if kind not in KINDS]:
        parser.error(f"--only takes some of {', '.join(KINDS)}, not {', '.join(unknown)}")
    best: dict[tuple[str, str, int, int], dict[str, float]] = {}
    asked = list(cases(args))
    for turn in range(args.rounds):
        for number, case in enumerate(asked):
            kind, policy, running, waiting = case
            where = f"round {turn + 1} of {args.rounds}, {number + 1} of {len(asked)}"
            progress(f"{where}: {kind} {policy}, {running} run, {waiting} wait")
            took = measure(*case, args.steps)
            if case not in best or _worth(took) < _worth(best[case]):
                best[case] = took
    names = ("kind", "policy", "running", "waiting")
    report("scheduler_step", [dict(zip(names, case, strict=True)) | {"us": took} for case, took in best.items()])


if __name__ == "__main__":
    main()
