"""Overtaking is counted exactly, whatever the order, and keeps nothing of those who are gone."""

from __future__ import annotations

import random

import pytest
from builders import Bench, make_request, make_scheduler

from scheduler.core.events import RequestFinished, RequestScheduled
from scheduler.core.overtaking import ROW, Overtaking
from scheduler.core.policies.catalog import make


@pytest.mark.parametrize("seed", range(4))
def test_counts_are_those_of_a_plain_list(seed: int) -> None:
    rng, books = random.Random(seed), Overtaking()
    waiting: list[int] = []
    admitted: list[int] = []
    for _ in range(6 * ROW):
        if rng.random() < 0.55 or not waiting:
            waiting.append(books.arrive())
            continue
        near_the_front = int(len(waiting) * rng.random() ** 3)
        place = waiting.pop(near_the_front)
        assert books.count(place) == sum(other > place for other in admitted)
        enters = rng.random() < 0.8
        assert books.leave(place, enters) == sum(other > place for other in admitted)
        if enters:
            admitted.append(place)
    for place in waiting:
        assert books.leave(place, False) == sum(other > place for other in admitted)


def test_rows_of_which_nobody_waits_are_forgotten() -> None:
    books = Overtaking()
    for _ in range(20 * ROW):
        books.leave(books.arrive(), True)
    assert books.rows <= 1
    stuck = books.arrive()
    for _ in range(20 * ROW):
        books.leave(books.arrive(), True)
    assert books.rows >= 20 and books.leave(stuck, True) == 20 * ROW
    assert books.rows <= 1


def test_a_request_knows_how_many_passed_it() -> None:
    here = Bench(make_scheduler(make("priority", {}), max_num_seqs=1))
    here.add(make_request("runs"))
    here.step()
    low = make_request("low", priority=9)
    here.add(low, *[make_request(priority=1) for _ in range(5)])
    here.run_to_idle()
    overtaken = {event.number: event.overtaken for event in here.of(RequestScheduled)}
    assert overtaken.pop(low.number) == 5 and set(overtaken.values()) == {0}


def test_one_that_ends_while_it_waits_says_how_many_passed_it() -> None:
    here = Bench(make_scheduler(make("priority", {}), max_num_seqs=1))
    here.add(make_request("runs", max_tokens=1))
    here.step()
    low = make_request("low", priority=9)
    here.add(low, make_request("high", priority=1))
    here.step()
    here.events += here.scheduler.abort("low", here.clock.now)
    assert [event.overtaken for event in here.of(RequestFinished) if event.id == "low"] == [1]


def test_a_row_is_kept_for_so_many_arrivals_and_no_fewer() -> None:
    books = Overtaking()
    for rows in (1, 2, 3):
        for _ in range(ROW):
            books.arrive()
        assert books.rows == rows


@pytest.mark.parametrize("row", range(5))
def test_all_who_came_later_and_were_admitted_are_counted_in_whatever_row_somebody_waits(row: int) -> None:
    books, oldest = Overtaking(), 0
    places = [books.arrive() for _ in range(5 * ROW)]
    waits = row * ROW
    for place in places:
        if place not in (oldest, waits):
            books.leave(place, True)
    assert books.count(waits) == 5 * ROW - 1 - waits
