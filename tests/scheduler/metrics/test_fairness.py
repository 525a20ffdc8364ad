"""Fairness: service by slot and how far it drifts apart while tenants are backlogged, folded by hand."""

from __future__ import annotations

import random

import pytest
from builders import MS, Bench, make_request, make_scheduler, play

from scheduler import metrics
from scheduler.core.policies.fcfs import Fcfs
from scheduler.metrics import Served, Wait, service_drift, service_slots, wider, window_drift

EDGES = [0, 10, 20, 30, 40]
ALWAYS = [Wait("a", 0, 40), Wait("b", 0, 40)]


def test_service_is_spread_over_the_slots_that_it_spans() -> None:
    slots = service_slots([Served("a", 5, 35, 60), Served("a", 20, 20, 7), Served("b", 12, 14, 4)], [], EDGES)
    assert slots.served == {"a": [10.0, 27.0, 20.0, 10.0], "b": [0.0, 4.0, 0.0, 0.0]}


def test_what_lies_outside_the_edges_is_not_lost() -> None:
    slots = service_slots([Served("a", 0, 0, 3), Served("a", 90, 95, 5)], [], EDGES)
    assert slots.served == {"a": [3.0, 0.0, 0.0, 5.0]}


def test_a_tenant_is_backlogged_only_where_somebody_of_it_waits_all_the_time() -> None:
    waits = [Wait("a", 0, 12), Wait("a", 12, 30), Wait("b", 11, 30), Wait("b", 30, 39)]
    assert service_slots([], waits, EDGES).backlogged == {"a": [True, True, True, False], "b": [False, False, True, False]}


def test_the_drift_is_the_widest_move_of_the_difference_while_both_wait() -> None:
    given = [Served("a", 5, 5, 8), Served("b", 15, 15, 20), Served("b", 25, 25, 1), Served("a", 35, 35, 100)]
    assert service_drift(service_slots(given, ALWAYS, EDGES)) == 100  # +8, -20, -1, +100: from -13 to +87
    assert service_drift(service_slots(given, [Wait("a", 0, 30), Wait("b", 0, 30)], EDGES)) == 21  # from +8 to -13
    assert window_drift(service_slots(given, [Wait("a", 0, 30), Wait("b", 0, 30)], EDGES)) == 20


def test_a_stretch_in_which_one_did_not_wait_begins_anew() -> None:
    given = [Served("a", 5, 5, 50), Served("a", 25, 25, 9), Served("b", 35, 35, 4)]
    waits = [Wait("a", 0, 40), Wait("b", 0, 10), Wait("b", 20, 40)]
    assert service_drift(service_slots(given, waits, EDGES)) == 50
    assert service_drift(service_slots(given[1:], waits, EDGES)) == 9
    assert service_drift(service_slots([Served("b", 5, 5, 50), *given[1:]], waits, EDGES)) == 50, "-50, then +9: not 59"


def test_an_idle_tenant_is_not_treated_unfairly() -> None:
    given = [Served("a", 5, 5, 1000)]
    assert service_drift(service_slots(given, [Wait("a", 0, 40)], EDGES)) is None
    assert service_drift(service_slots(given, [Wait("a", 0, 20), Wait("b", 20, 40)], EDGES)) is None
    assert window_drift(service_slots(given, [], EDGES)) is None


def test_weights_divide_service() -> None:
    given = [Served("a", 0, 40, 80), Served("b", 0, 40, 40)]
    slots = service_slots(given, ALWAYS, EDGES)
    assert service_drift(slots) == 40 and service_drift(slots, {"a": 2.0}) == 0


def test_wider_slots_hold_the_same_service_and_only_whole_backlogs() -> None:
    slots = wider(service_slots([Served("a", 5, 35, 60)], [Wait("a", 0, 30)], EDGES), 2)
    assert slots.edges == (0, 20, 40) and slots.served == {"a": [30.0, 30.0]} and slots.backlogged == {"a": [True, False]}


def two_tenants(n: int = 12) -> Bench:
    """`a` asks for much, `b` for little, through two slots."""
    bench = Bench(make_scheduler(max_num_seqs=2))
    bench.add(*(make_request(f"r{i}", 5 + i % 4, 3 if i % 2 else 9, tenant="ba"[i % 2 == 0]) for i in range(n)))
    bench.run_to_idle()
    return bench


def test_from_a_log_service_over_all_slots_is_that_of_the_requests() -> None:
    events = two_tenants().events
    lives = list(metrics.lives(events).values())
    edges = sorted({0, *(load.ended_at for load in metrics.step_loads(events))})
    slots = service_slots(metrics.served(events, lives), metrics.waiting_of(lives), edges)
    expected = metrics.service((life.tenant, life.prompt_tokens, life.output_tokens) for life in lives)
    assert {tenant: sum(units) for tenant, units in slots.served.items()} == expected
    drift = service_drift(slots)
    assert drift is not None and 0 < drift <= sum(expected.values())


@pytest.mark.parametrize("seed", range(5))
def test_the_order_in_which_service_is_named_does_not_matter(seed: int) -> None:
    chance = random.Random(seed)
    given = [Served(chance.choice("abc"), at, at + chance.randrange(20), chance.randrange(50)) for at in range(0, 40, 2)]
    waits = [Wait(chance.choice("abc"), at, at + chance.randrange(30)) for at in range(0, 40, 3)]
    shuffled = chance.sample(given, len(given)), chance.sample(waits, len(waits))
    one, other = service_slots(given, waits, EDGES), service_slots(*shuffled, EDGES)
    assert one.backlogged == other.backlogged
    assert {name: pytest.approx(units) for name, units in one.served.items()} == other.served
    assert service_drift(one) == (None if service_drift(other) is None else pytest.approx(service_drift(other)))


def test_fcfs_lets_service_drift_as_far_as_the_noisy_one_asks() -> None:
    def drift(noisy: int) -> float:
        requests = [make_request(f"n{i}", 8, 8, tenant="noisy", received_at=1) for i in range(noisy)]
        requests += [make_request(f"p{i}", 8, 8, tenant="polite", received_at=2 * MS) for i in range(4)]
        events = play(make_scheduler(Fcfs(), max_num_seqs=2), requests)
        lives = list(metrics.lives(events).values())
        edges = sorted({load.ended_at for load in metrics.step_loads(events)})
        found = service_drift(service_slots(metrics.served(events, lives), metrics.waiting_of(lives), edges))
        assert found is not None
        return found

    assert drift(40) > 1.9 * drift(20) > 3 * drift(8)
