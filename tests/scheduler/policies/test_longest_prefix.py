"""longest_prefix: who can hit most is next, nobody is overtaken by one who came more than bound_ms later."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from builders import MS, Bench, make_limits, make_request

from scheduler.core.blocks import BlockPool
from scheduler.core.events import RequestScheduled
from scheduler.core.policies.catalog import make
from scheduler.core.scheduler import Scheduler


def questions() -> ModuleType:
    """The guarantees of prefixes; their folder is no package."""
    path = Path(__file__).parents[1] / "guarantees" / "prefix_guarantees.py"
    spec = importlib.util.spec_from_file_location("prefix_guarantees", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bench(policy: str = "longest_prefix", blocks: int = 64, **params: float) -> Bench:
    """One slot, blocks of 4 tokens."""
    pool = BlockPool(blocks, 4)
    return Bench(Scheduler(make_limits(max_num_seqs=1), pool, make(policy, params, pool)))


def order(bench: Bench) -> list[str]:
    """Ids in the order of first admission."""
    names = {request.number: name for name, request in bench.scheduler.requests.items()}
    bench.run_to_idle()
    return [names[event.number] for event in bench.of(RequestScheduled) if event.number in names]


def test_who_can_hit_most_is_next_then_who_came_first() -> None:
    b = bench()
    b.add(make_request("warm", prompt=range(13), max_tokens=2))
    b.run_to_idle()
    b.events.clear()
    b.add(make_request("cold", prompt=30), make_request("four", prompt=[0, 1, 2, 3, 50]), make_request("chill", prompt=30))
    b.add(make_request("twelve", prompt=[*range(12), 60]), make_request("again", prompt=[*range(12), 61]))
    assert order(b) == ["twelve", "again", "four", "cold", "chill"]


def test_who_waits_moves_up_when_what_it_begins_with_has_been_computed() -> None:
    b = bench()
    b.add(make_request("first", prompt=[*range(12), 1], max_tokens=3))
    b.add(make_request("other", prompt=30, max_tokens=2), make_request("same", prompt=[*range(12), 2]))
    assert order(b) == ["first", "same", "other"]


def test_a_prefix_is_worth_no_more_than_its_bound() -> None:
    b = bench(worth_ms=10, bound_ms=50)
    b.add(make_request("warm", prompt=range(41), max_tokens=2))
    b.run_to_idle()
    b.events.clear()
    b.add(make_request("cold", prompt=30))
    b.clock.tick(51 * MS)
    b.add(make_request("late", prompt=[*range(40), 60]))
    assert order(b) == ["cold", "late"], "40 tokens would be worth 400 ms"


def test_ageing_is_what_keeps_the_cold_from_starving() -> None:
    asked = questions()
    assert asked.farthest_overtaking("longest_prefix") <= asked.BOUND_MS * MS
    assert asked.farthest_overtaking("longest_prefix", bound_ms=86_400_000) > 4 * asked.BOUND_MS * MS


def test_hit_rate_is_the_best_possible_where_fcfs_hits_nothing() -> None:
    asked = questions()
    assert asked.hit_rate("longest_prefix") >= 0.85
    assert asked.hit_rate("fcfs") <= 0.01


def test_policy_that_is_taken_out_of_force_hears_nothing_any_more() -> None:
    b = bench()
    b.add(make_request("a", prompt=9), make_request("b", prompt=9))
    assert b.scheduler.pool._observer is not None
    b.scheduler.set_policy(make("fcfs", {}), b.clock.now)
    assert b.scheduler.pool._observer is None
    other = make("longest_prefix", {}, b.scheduler.pool)
    assert b.scheduler.pool._observer is None, "one that was only made hears nothing either"
    b.scheduler.set_policy(other, b.clock.now)
    assert b.scheduler.pool._observer is not None
    b.run_to_idle()


def test_newest_yields_and_nobody_to_one_who_waits() -> None:
    policy = make("longest_prefix", {})
    running = [make_request() for _ in range(3)]
    for number, request in enumerate(running):
        request.number, request.slot = number, number
    assert policy.victim(running, running[0]) is running[2]
    assert policy.victim(running, make_request()) is None
