"""Scenarios: the shipped ones load, parameters are typed and ranged, and every complaint names its field."""

import pytest

from loadgen import library
from loadgen.params import Param, ScenarioError, parse_pairs, settle

GOOD = """
title = "t"
description = "d"
duration_s = "$seconds"
[params.seconds]
type = "float"
default = 5
low = 1.0
high = 60.0
help = "how long"
[slo]
ttft_ms = 100
[scheduler]
batching = "static"
[[streams]]
name = "s"
[streams.arrivals]
process = "poisson"
rate = 2
[[streams.mix]]
kind = "k"
prompt = { dist = "uniform", low = 3, high = 9 }
output = { tokens = 5 }
"""


def complaint(text: str, overrides: dict[str, object] | None = None) -> str:
    with pytest.raises(ScenarioError) as caught:
        library.parse("test", text, overrides)
    return caught.value.field


def test_every_shipped_scenario_loads_and_describes_itself() -> None:
    assert {"first_look", "steady", "poisson", "burst", "noisy_neighbour", "tutorial"} <= set(library.names())
    for name in library.names():
        shown = library.load(name).as_json()
        assert shown["title"] and len(shown["description"]) > 40 and shown["streams"]
        assert all(param["help"] and param["type"] for param in shown["parameters"])
        assert shown["slo"]["ttft_ms"] and shown["slo"]["tpot_ms"]


def test_an_unknown_scenario_is_named_with_those_that_exist() -> None:
    with pytest.raises(ScenarioError, match="steady") as caught:
        library.load("../../etc/passwd")
    assert caught.value.field == "scenario"


def test_values_come_from_parameters_and_overrides() -> None:
    assert library.parse("test", GOOD).duration_s == 5.0
    assert library.parse("test", GOOD, {"seconds": "12.5"}).duration_s == 12.5
    assert library.parse("test", GOOD, {"seconds": 7}).values == (("seconds", 7.0),)


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('title = "t"', 'title = "t"\ncolour = "red"', "colour"),
        ('title = "t"', "", "title"),
        ('title = "t"', "title = 3", "title"),
        ('duration_s = "$seconds"', "duration_s = 5", "params.seconds"),
        ('duration_s = "$seconds"', 'duration_s = "$minutes"', "duration_s"),
        ("default = 5", "default = 500", "params.seconds.default"),
        ("default = 5", 'default = "x"', "params.seconds.default"),
        ('type = "float"', 'type = "double"', "params.seconds.type"),
        ("rate = 2", "rate = -2", "streams[0].arrivals.rate"),
        ("rate = 2", "rate = 0", "streams[0].arrivals.rate"),
        ("rate = 2", "rate = 2\nusers = 4", "streams[0].arrivals.users"),
        ("rate = 2", "", "streams[0].arrivals.rate"),
        ('process = "poisson"', 'process = "fast"', "streams[0].arrivals.process"),
        ('kind = "k"', 'kind = "k"\nweight = 0', "streams[0].mix"),
        ('kind = "k"', 'kind = "k"\nwieght = 1', "streams[0].mix[0].wieght"),
        ("high = 9", "high = 2", "streams[0].mix[0].prompt.high"),
        ("tokens = 5", "tokens = 0", "streams[0].mix[0].output.tokens"),
        ("tokens = 5", "tokens = true", "streams[0].mix[0].output.tokens"),
        ("ttft_ms = 100", "ttft = 100", "slo.ttft"),
        ('batching = "static"', "batching = [1]", "scheduler.batching"),
        ("[slo]", "[slos]", "slos"),
    ],
)
def test_a_wrong_file_is_refused_by_the_name_of_its_field(old: str, new: str, field: str) -> None:
    assert old in GOOD
    assert complaint(GOOD.replace(old, new, 1)) == field


def test_text_that_is_not_toml_is_refused() -> None:
    assert complaint("title = ") == "test"


def test_two_closed_streams_are_one_too_many() -> None:
    closed = GOOD.replace('process = "poisson"\nrate = 2', 'process = "closed"\nusers = 2')
    twice = closed + closed[closed.index("[[streams]]") :].replace('name = "s"', 'name = "s2"')
    assert complaint(twice) == "streams"


@pytest.mark.parametrize("value", ["0.5", "61", "nan", "inf", "abc", "", "true"])
def test_an_override_out_of_range_or_type_is_refused_by_its_name(value: str) -> None:
    assert complaint(GOOD, {"seconds": value}) == "seconds"


def test_an_unknown_override_is_refused_by_its_name() -> None:
    assert complaint(GOOD, {"second": "3"}) == "second"


def test_parameters_parse_text_by_their_type() -> None:
    params = [Param("n", "int", 1, ""), Param("b", "bool", False, ""), Param("s", "str", "x", "", choices=("x", "y"))]
    assert settle(params, {"n": "7", "b": "true", "s": "y"}) == {"n": 7, "b": True, "s": "y"}
    for name, wrong in (("n", "7.5"), ("b", "yes"), ("s", "z"), ("n", 7.5), ("n", True)):
        with pytest.raises(ScenarioError) as caught:
            settle(params, {name: wrong})
        assert caught.value.field == name


def test_pairs_need_an_equals_sign() -> None:
    assert parse_pairs(["a=1", "b=x=y", "a=2"]) == {"a": "2", "b": "x=y"}
    with pytest.raises(ScenarioError):
        parse_pairs(["rate"])


def test_the_tutorial_keeps_its_order_with_lower_first() -> None:
    scenario = library.load("tutorial")
    mixes = [turn.mix[0] for turn in scenario.streams[0].turns]
    by_priority = sorted(mixes, key=lambda mix: mix.priority or 0)
    assert [mix.kind for mix in by_priority] == ["req5", "req2", "req4", "req3", "req1"]
    assert dict(scenario.scheduler) == {"policy": "priority", "batching": "static", "max_num_seqs": 2}


def test_first_look_fills_slots_with_short_requests_and_memory_with_long_ones() -> None:
    slots, blocks, size = 16, 6144 // 16, 16
    short, long = library.load("first_look").streams[0].turns
    whole = [-(-(mix.prompt.high + mix.output.high) // size) for mix in short.mix]
    assert slots * max(whole) < 0.5 * blocks and short.count > slots
    prompts = [mix.prompt.low // size for mix in long.mix]
    assert 10 * min(prompts) < blocks < long.count * min(prompts) and blocks // min(prompts) < slots
