"""Replay seeds: `python tests/simulation/replay.py SEED… [--log]` prints each one's hash and what it breaks.

--log: its plan and its events, too.
Exit code 1 when a promise was broken. Invariant: the same seed prints the same lines, on whatever machine.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str]) -> int:
    """Run each seed once."""
    shown = "--log" in arguments
    broken = 0
    for seed in (int(each) for each in arguments if each != "--log"):
        outcome = life.run(seed)
        broken += bool(outcome.faults)
        if shown:
            print(*outcome.journal, sep="\n")
        print(seed, outcome.digest, dict(sorted(outcome.told.items())))
        print(*(f"  {fault}" for fault in outcome.faults), sep="\n", end="\n" if outcome.faults else "")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.path[:1] = [str(ROOT), str(ROOT / "tests")]
    from simulation import life

    sys.exit(main(sys.argv[1:]))
