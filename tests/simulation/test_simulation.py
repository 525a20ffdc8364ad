"""Deterministic simulation of core, engine loop, pair, web life and records: every promise holds for every seed.

SEEDS and FIRST_SEED by environment: `SEEDS=20000 pytest tests/simulation/test_simulation.py`. A failure names its seeds;
`python tests/simulation/replay.py SEED --log` shows what happened, the same on every machine.
"""

from __future__ import annotations

import os
import subprocess
import sys

from simulation import life
from simulation.replay import ROOT

SEEDS = int(os.environ.get("SEEDS", "500"))
FIRST = int(os.environ.get("FIRST_SEED", "0"))
SHOWN = 5
# Seeds that found faults of the product: an end told before it was durable (50); a row that stayed although it had been
# refused (113); an answer that waited for ever since it had ended before its row was refused (20); a frozen engine that was
# held for ever (191, 256, 1312, 1728, 2039); messages of a life that is over heard before the next began (105); one that
# had a frozen engine alone, whole or in part, and was ended by the web (9214, 12095).
KEPT = (20, 50, 105, 113, 191, 256, 1312, 1728, 2039, 9214, 12095)
COMPARED = (0, 8, 19, 43, 105)


def test_every_promise_holds_for_every_seed() -> None:
    told: dict[str, int] = {}
    broken: dict[int, list[str]] = {}
    for seed in (*KEPT, *range(FIRST, FIRST + SEEDS)):
        outcome = life.run(seed)
        for what, count in outcome.told.items():
            told[what] = told.get(what, 0) + count
        if outcome.faults:
            broken[seed] = outcome.faults
    assert not broken, f"{len(broken)} seeds break a promise: {sorted(broken)}\n" + "\n".join(_words(broken))
    if SEEDS >= 100:  # else the lives are too few to have met every kind of end
        assert min(told.get(what, 0) for what in ("finished", "failed", "refused", "reset", "left")) > SEEDS / 100, told
        assert told["finished"] > SEEDS, told


def test_a_seed_replays_to_the_same_hash() -> None:
    once = [life.run(seed).digest for seed in COMPARED]
    assert once == [life.run(seed).digest for seed in COMPARED]
    assert len(set(once)) == len(COMPARED)


def test_a_seed_replays_byte_for_byte_whatever_the_hash_seed() -> None:
    said = {_replayed(hash_seed) for hash_seed in ("0", "1", "4242")}
    assert len(said) == 1
    assert all(life.run(seed).digest in next(iter(said)) for seed in COMPARED)


def _replayed(hash_seed: str) -> str:
    command = [sys.executable, str(ROOT / "tests/simulation/replay.py"), *map(str, COMPARED), "--log"]
    env = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=True).stdout


def _words(broken: dict[int, list[str]]) -> list[str]:
    seeds = sorted(broken)[:SHOWN]
    lines = [f"seed {seed}: {fault}" for seed in seeds for fault in broken[seed][:SHOWN]]
    return [*lines, f"replay: python tests/simulation/replay.py {' '.join(map(str, seeds))} --log"]
