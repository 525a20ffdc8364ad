"""The library of scenarios, read as data: every file can be shown, and overrides are checked by its own ranges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.supervisor import scenarios
from loadgen import orders
from scheduler.errors import SettingsError
from scheduler.settings import SchedulerSettings

TOML = """
title = "T"
description = "D"
duration_s = "$seconds"
[params.seconds]
type = "float"
default = 5.0
low = 1
high = 10
help = "h"
[params.shape]
type = "str"
default = "a"
choices = ["a", "b"]
help = "h"
[scheduler]
max_num_seqs = 2
[[streams]]
name = "s"
arrivals = { process = "poisson" }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "x.toml").write_text(TOML)
    return tmp_path


@pytest.mark.parametrize("name", scenarios.names())
def test_every_scenario_can_be_shown_and_its_scheduler_settings_exist(name: str) -> None:
    shown = scenarios.describe(name)
    assert shown["title"] and shown["description"] and shown["duration_s"] > 0
    SchedulerSettings().change(shown["scheduler"], live=True)


def test_values_are_settled_by_parameters(folder: Path) -> None:
    assert scenarios.describe("x", None, folder)["duration_s"] == 5.0
    shown = scenarios.describe("x", {"seconds": 7}, folder)
    assert shown["duration_s"] == 7 and shown["scheduler"] == {"max_num_seqs": 2} and shown["processes"] == ["poisson"]


@pytest.mark.parametrize(
    "overrides",
    [
        {"seconds": 11},
        {"seconds": 0.5},
        {"seconds": "5"},
        {"seconds": True},
        {"seconds": float("nan")},
        {"shape": "c"},
        {"other": 1},
    ],
)
def test_an_override_outside_its_range_is_refused_by_name(folder: Path, overrides: dict[str, object]) -> None:
    with pytest.raises(SettingsError) as caught:
        scenarios.describe("x", overrides, folder)
    assert caught.value.param == f"set.{next(iter(overrides))}"


def test_a_load_shape_is_judged_by_the_load_generator_which_names_the_point() -> None:
    assert scenarios.describe("shape", {"shape": "0:2 9:4"})["values"]["shape"] == "0:2 9:4"
    for shape, said in (
        ("0:1 5-8", "point 2, '5-8'"),
        ("0:1\0", "must be text"),
        ("0:1 " * 2000, "must be text"),
        ("", "1 to 100"),
    ):
        with pytest.raises(SettingsError, match=said) as caught:
            scenarios.describe("shape", {"shape": shape})
        assert caught.value.param == "set.shape"


def test_what_is_offered_is_what_the_load_generator_says() -> None:
    (stream,) = scenarios.offered("shape", {"shape": "0:1 20:8", "duration_s": "20"})["streams"]
    assert stream["expected"] == 90 and stream["loop"] == "open"
    for given, param in (({"shape": "5:1"}, "shape"), ({"colour": "1"}, "colour"), ({"duration_s": "-1"}, "duration_s")):
        with pytest.raises(SettingsError) as caught:
            scenarios.offered("shape", given)
        assert caught.value.param == param
    with pytest.raises(SettingsError, match="no scenario"):
        scenarios.offered("../shape", {})


@pytest.mark.parametrize("name", ["", "y", "../x", "x.toml", "/etc/passwd", "x\0"])
def test_only_listed_names_are_opened(folder: Path, name: str) -> None:
    with pytest.raises(SettingsError):
        scenarios.describe(name, None, folder)


@pytest.mark.parametrize("factor", [scenarios.LEAST_FACTOR, scenarios.MOST_FACTOR])
def test_a_factor_that_may_be_asked_for_is_one_that_a_generator_follows(factor: float) -> None:
    heard: list[float] = []
    for asked in (factor, factor * 0.99 if factor < 1 else factor * 1.01):
        orders.follow(json.dumps({"rate_factor": asked}).encode(), heard.append, heard.clear)
    assert heard == [factor], "and none beyond"
