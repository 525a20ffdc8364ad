"""Two processes take turns on one machine: one works while the other is stopped by a signal. Knows no engine and no server.

The turns are short beside the time in which the machine's speed drifts, and only what lies wholly within a turn is counted.
Invariant: whatever happens, both go on afterwards.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Mapping

NS = 1_000_000_000


def take_turns(pids: Mapping[str, int], turns: int, seconds: float, first: int = 0) -> dict[str, list[tuple[int, int]]]:
    """So many turns of `seconds` each (a b b a …, from b with `first` = 1): (began, ended) of each by name, monotonic ns."""
    names, turned = list(pids), {name: list[tuple[int, int]]() for name in pids}
    try:
        for turn in range(first, first + turns):
            for name in names if turn % 2 == 0 else names[::-1]:
                for other in names:
                    os.kill(pids[other], signal.SIGCONT if other == name else signal.SIGSTOP)
                began = time.monotonic_ns()
                time.sleep(seconds)
                turned[name].append((began, time.monotonic_ns()))
    finally:
        for pid in pids.values():
            os.kill(pid, signal.SIGCONT)
    return turned


def steps_s(steps: Iterable[tuple[int, int, int]], turns: Iterable[tuple[int, int]], slots: int) -> float:
    """Steps/s from the end of one full step to the end of the next, of both within one turn. Raises ZeroDivisionError: none.

    steps: (started, ended, decodes) in order, on the turns' clock; full: as many decodes as slots.
    """
    ordered = list(steps)
    count = time_ns = 0
    for began, ended in turns:
        full = [end for _, end, decodes in ordered if began <= end <= ended and decodes == slots]
        count += max(0, len(full) - 1)
        time_ns += full[-1] - full[0] if full else 0
    return count * NS / time_ns
