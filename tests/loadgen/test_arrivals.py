"""Arrivals: due times are what the process says, and depend on the seed alone (B21)."""

import random
from itertools import islice, pairwise, repeat, takewhile
from statistics import mean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.arrivals import curve, due_times, masses, measured_times
from loadgen.curve import read_points
from loadgen.scenario import Arrivals


def dues(seconds: float, seed: int = 1, **fields: object) -> list[float]:
    return due_times(Arrivals(**fields), seconds, random.Random(seed))  # type: ignore[arg-type]


def cv(times: list[float]) -> float:
    gaps = [b - a for a, b in pairwise(times)]
    return pstdev(gaps) / mean(gaps)


def test_constant_gaps_are_constant_and_fill_the_time() -> None:
    times = dues(10, process="constant", rate=50.0)
    assert len(times) == 500 and times[0] == 0.0 and times[-1] == pytest.approx(9.98)
    assert cv(times) < 0.01


def test_poisson_gaps_vary_as_much_as_their_mean() -> None:
    times = dues(1000, process="poisson", rate=20.0)
    assert len(times) == pytest.approx(20_000, rel=0.03)
    assert cv(times) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("wanted", [0.5, 1.0, 2.0])
def test_gamma_gaps_have_the_variation_asked_for(wanted: float) -> None:
    times = dues(2000, process="gamma", rate=20.0, cv=wanted)
    assert len(times) == pytest.approx(40_000, rel=0.06)
    assert cv(times) == pytest.approx(wanted, rel=0.08)


def test_bursts_come_in_their_time_at_their_rate() -> None:
    times = dues(2000, process="burst", rate=1.0, burst_rate=30.0, quiet_s=8.0, burst_s=2.0)
    quiet = sum(1 for due in times if due % 10 < 8)
    assert quiet == pytest.approx(1600, rel=0.1)
    assert len(times) - quiet == pytest.approx(12_000, rel=0.05)


def test_bursts_out_of_silence_and_no_burst_at_all() -> None:
    times = dues(40, process="burst", rate=0.0, burst_rate=10.0, quiet_s=8.0, burst_s=2.0)
    assert times and all(due % 10 >= 8 for due in times)
    assert dues(40, process="burst", rate=0.0, burst_rate=0.0, quiet_s=8.0, burst_s=2.0) == []


def test_a_list_is_taken_as_it_is_up_to_the_end() -> None:
    assert dues(0.35, process="list", at_s=(0.0, 0.1, 0.4)) == [0.0, 0.1]


def test_measured_arrivals_bring_the_work_that_the_power_can_do() -> None:
    works = [10.0, 10.0, 40.0] * 4000
    times = measured_times(works, 100.0, 500.0, random.Random(3))
    assert sum(works[: len(times)]) / 500.0 == pytest.approx(100.0, rel=0.05)


def test_heavy_stretches_come_slower_than_light_ones() -> None:
    light = measured_times(repeat(1.0), 10.0, 100.0, random.Random(3))
    heavy = measured_times(repeat(4.0), 10.0, 100.0, random.Random(3))
    assert len(light) == pytest.approx(4 * len(heavy), rel=0.1)


@pytest.mark.parametrize("process", ["poisson", "gamma", "burst"])
def test_the_same_seed_gives_the_same_schedule_and_another_does_not(process: str) -> None:
    fields = {"process": process, "rate": 5.0, "burst_rate": 9.0, "quiet_s": 1.0, "burst_s": 1.0}
    assert dues(60, 7, **fields) == dues(60, 7, **fields)
    assert dues(60, 7, **fields) != dues(60, 8, **fields)


def test_due_times_are_in_order_and_below_the_end() -> None:
    for process in ("constant", "poisson", "gamma", "burst"):
        times = dues(30, process=process, rate=9.0, burst_rate=20.0, quiet_s=1.0, burst_s=1.0)
        assert times == sorted(times) and times[-1] < 30


@given(st.integers(1, 5), st.integers(0, 2**32))
def test_the_shares_of_processes_are_the_schedule_cut_into_parts(processes: int, seed: int) -> None:
    arrivals = Arrivals(process="shape", points=((0.0, 1.0), (10.0, 9.0), (10.0, 2.0)))
    along = curve(arrivals)

    def share(index: int) -> list[tuple[int, float]]:
        mine = islice(enumerate(masses(arrivals, random.Random(seed))), index, None, processes)
        return list(takewhile(lambda pair: pair[1] < 30, ((k, along.instant(mass)) for k, mass in mine)))

    whole = due_times(arrivals, 30, random.Random(seed))
    assert sorted(pair for index in range(processes) for pair in share(index)) == list(enumerate(whole))


def test_arrivals_of_a_shape_are_poisson_at_its_rate() -> None:
    points = tuple((100.0 * n, rate) for n, rate in enumerate((2.0, 20.0, 20.0, 2.0)))
    times = dues(400, process="shape", points=points)
    counts = [sum(1 for due in times if start <= due < start + 100) for start in range(0, 400, 100)]
    assert all(abs(n - wanted) < 4 * wanted**0.5 for n, wanted in zip(counts, (1100, 2000, 1100, 200), strict=True)), counts
    flat = [due for due in times if 100 <= due < 200]
    assert cv(flat) == pytest.approx(1.0, abs=0.08)


def test_a_burst_is_a_shape_that_repeats() -> None:
    burst = dues(40, process="burst", rate=1.0, burst_rate=9.0, quiet_s=8.0, burst_s=2.0)
    drawn = "0:1 8:1 8:9 10:9 10:1 18:1 18:9 20:9 20:1 28:1 28:9 30:9 30:1 38:1 38:9"
    assert dues(40, process="shape", points=read_points(drawn)) == pytest.approx(burst)
