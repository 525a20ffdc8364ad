"""Interference: mixed steps against the run's own pure-decode steps, by hand, and against a cost model that knows the truth."""

from __future__ import annotations

from builders import MS, make_request, make_scheduler, play

from scheduler.core.policies.fcfs import Fcfs
from scheduler.metrics import StepLoad, interference, step_loads


def step(seq: int, ms: float, decodes: int, prefill: int = 0, used: int | None = None) -> StepLoad:
    """A step that took `ms`, one after the other on a clock of a second a step."""
    start = seq * 1000 * MS
    return StepLoad(1, seq, start, start + round(ms * MS), 256, prefill, decodes, used, None if used is None else 100)


def test_a_mixed_step_costs_what_it_took_beyond_the_median_of_its_like() -> None:
    found = interference(
        [step(1, 10, 4), step(2, 12, 4), step(3, 90, 4), step(4, 30, 4, prefill=64), step(5, 20, 4, prefill=9)]
    )
    assert found is not None and (found.mixed, found.compared) == (2, 2)
    assert found.stretched == (30 - 12 + 20 - 12) * MS and found.lost == 4 * found.stretched
    assert found.decoding == 4 * (10 + 12 + 90 + 30 + 20) * MS and found.share == found.lost / found.decoding
    assert [(each.seq, each.ns, each.alone) for each in found.worst] == [(4, 30 * MS, 12 * MS), (5, 20 * MS, 12 * MS)]


def test_without_pure_decode_steps_it_is_undefined_not_nothing() -> None:
    assert interference([step(1, 30, 4, prefill=64), step(2, 5, 0, prefill=64)]) is None
    assert interference([step(1, 10, 4)]) is None
    assert interference([]) is None


def test_steps_of_another_size_are_no_measure() -> None:
    found = interference([step(1, 10, 4), step(2, 30, 5, prefill=64), step(3, 99, 12, prefill=64)])
    assert found is not None and (found.mixed, found.compared) == (2, 1)
    assert found.worst[0].seq == 2, "five decodes may be held against four, twelve may not"


def test_of_steps_as_large_those_with_as_full_a_memory_count() -> None:
    steps = [step(1, 10, 8, used=5), step(2, 40, 8, used=80), step(3, 50, 8, prefill=64, used=82)]
    found = interference(steps)
    assert found is not None and found.stretched == 10 * MS


def test_only_the_worst_are_named_and_a_tie_goes_to_the_earlier() -> None:
    found = interference([step(1, 10, 4), *(step(seq, 20, 4, prefill=8) for seq in range(9, 1, -1))])
    assert found is not None and [each.seq for each in found.worst] == [2, 3, 4, 5, 6] and found.compared == 8


def test_steps_of_even_length_show_no_interference() -> None:
    requests = [make_request(f"r{i}", 6, 12, received_at=i * 30 * MS) for i in range(6)]
    loads = step_loads(play(make_scheduler(Fcfs()), requests))
    found = interference(loads)
    assert found is not None and found.mixed > 2 and found.stretched == 0
