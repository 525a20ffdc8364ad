"""What a scenario will offer: the figures of the curves that arrivals are drawn along, and words where nobody can know."""

import random

import pytest

from loadgen import library
from loadgen.arrivals import due_times
from loadgen.offered import offered


@pytest.mark.parametrize("name", library.names())
def test_every_scenario_says_what_it_offers_stream_by_stream(name: str) -> None:
    scenario = library.load(name)
    found = offered(scenario)
    assert [each["name"] for each in found["streams"]] == [stream.name for stream in scenario.streams]
    for each in found["streams"]:
        assert each["said"] and (each["rates"] is None) == (each["expected"] is None)
        if each["rates"] is not None:
            assert sum(each["rates"]) * found["bin_s"] == pytest.approx(each["expected"], abs=0.01)
            assert len(each["rates"]) * found["bin_s"] == pytest.approx(scenario.duration_s)


@pytest.mark.parametrize(("name", "values"), [("shape", {}), ("burst", {}), ("poisson", {"rate": 30.0, "cv": 1.0})])
def test_as_many_come_as_are_expected(name: str, values: dict[str, object]) -> None:
    scenario = library.load(name, values)
    expected = offered(scenario)["streams"][0]["expected"]
    stream = scenario.streams[0]
    counts = [len(due_times(stream.arrivals, scenario.duration_s, random.Random(seed))) for seed in range(40)]
    assert sum(counts) / len(counts) == pytest.approx(expected, abs=4 * (expected / len(counts)) ** 0.5)


LATE = """
title = "t"
description = "d"
duration_s = 20
[[streams]]
name = "late"
start_s = 5
stop_s = 10
arrivals = { process = "shape", points = "0:2 2:2 2:4" }
mix = [{ kind = "k", prompt = { tokens = 2 }, output = { tokens = 1 } }]
"""


def test_a_stream_offers_while_it_lives_and_its_shape_begins_when_it_does() -> None:
    (stream,) = offered(library.parse("test", LATE), bins=20)["streams"]
    assert stream["rates"] == [0.0] * 5 + [2.0, 2.0, 4.0, 4.0, 4.0] + [0.0] * 10 and stream["expected"] == 16


def test_a_step_of_a_shape_is_where_it_was_drawn_and_nobody_knows_a_closed_loop() -> None:
    found = offered(library.load("shape", {"shape": "0:2 30:2 30:6"}))["streams"][0]
    assert found["rates"][:120] == [2.0] * 120 and found["rates"][120:] == [6.0] * 120 and found["expected"] == 240
    noisy = library.load("noisy_neighbour")
    late = next(stream for stream in noisy.streams if stream.start_s > 0)
    assert late.arrivals.process == "closed" and "asks again" in offered(noisy)["streams"][1]["said"]
