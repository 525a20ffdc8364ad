"""The same calls give the same events, byte for byte, whatever the process's hash seed."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

from builders import MS, FakeRunner, make_request, make_scheduler

from scheduler.core.events import Event
from scheduler.core.policies.catalog import CATALOG, make

TRACE = 80


def replay(policy: str, seed: int) -> list[Event]:
    """A random but seeded trace, stepped to its end."""
    rng = random.Random(seed)
    core = make_scheduler(blocks=60, block_size=4, max_num_seqs=8)
    core.set_policy(make(policy, {}, core.pool), 0)
    runner, events, now = FakeRunner(), list[Event](), 0
    arrivals = sorted(rng.randrange(900) * MS for _ in range(TRACE))
    serial = 0
    while arrivals or core.requests:
        while arrivals and arrivals[0] <= now:
            at = arrivals.pop(0)
            request = make_request(
                f"r{serial}",
                [1] * rng.choice([0, 0, 8, 12]) + [rng.randrange(9) for _ in range(rng.randrange(1, 28))],
                rng.randrange(1, 40),
                received_at=at,
                priority=rng.randrange(4),
                tenant=rng.choice(["ann", "bob", "cyd"]),
                kind=rng.choice(["interactive", "batch", "background"]),
                deadline_at=at + rng.randrange(900) * MS,
                timeout_at=at + 700 * MS if serial % 9 == 0 else None,
                stop_token_ids=(101, 120, 133),
                min_tokens=rng.randrange(9),
            )
            events += core.add(request, now)
            serial += 1
        plan = core.schedule(now)
        events += plan.events
        if plan.empty:
            now += MS
            continue
        output = runner.run(plan)
        now += output.elapsed
        events += core.commit(plan, output, now)
    return events


def digest(policy: str, seed: int) -> str:
    return hashlib.sha256("\n".join(map(repr, replay(policy, seed))).encode()).hexdigest()


def test_same_trace_gives_byte_equal_events_under_any_hash_seed() -> None:
    here = [digest(name, 5) for name in CATALOG]
    assert len(set(here)) > len(here) // 2, "the orders should differ"
    root = Path(__file__).resolve().parents[3]
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from test_replay import CATALOG, digest\n"
        "print(*[digest(name, 5) for name in CATALOG])"
    )
    paths = [str(root), str(root / "tests"), str(Path(__file__).parent)]
    for hash_seed in ("0", "1", "4711"):
        done = subprocess.run(
            [sys.executable, "-c", code, *paths],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert done.stdout.split() == here
