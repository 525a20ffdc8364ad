"""What tells runs of one scenario apart: only what is not as it is by default."""

from __future__ import annotations

from typing import Any

from app.api.departures import asked_with, with_departures
from app.store.advice import memory_of
from app.supervisor import scenarios
from scheduler.runners.cost_model import DEFAULT_HARDWARE

SIMULATED = {"runner": "simulated", "hardware": DEFAULT_HARDWARE, "model": "m"}


def run(**changes: Any) -> dict[str, Any]:
    return {"id": "one", "scenario": "poisson", "parameters": None, "settings": None, "scheduler": None} | changes


def unlike(settings: dict[str, Any], engine: dict[str, Any] | None, **changes: Any) -> dict[str, Any]:
    (shown,) = with_departures([run(settings=settings, engine=engine, **changes)])
    found: dict[str, Any] = shown["unlike_default"]
    return found


def test_parameters_and_settings_that_are_as_by_default_are_left_out() -> None:
    known = scenarios.describe("poisson")
    usual = known["values"] | {f"slo_{name}": value for name, value in known["slo"].items()}
    settings = {"policy": "sjf", "max_num_seqs": 16, "watermark": 0.5, "policy_params": {}}
    assert unlike(settings, None, parameters={**usual, "rate": 7.5}) == {"rate": 7.5, "watermark": 0.5}


def test_what_a_run_was_asked_with_comes_first_and_is_shown_where_it_is_the_programs_own_default() -> None:
    settings = {"max_num_seqs": 16, "watermark": 0.5, "policy": "sjf"}
    found = unlike(
        settings, SIMULATED, scheduler={"max_num_seqs": 16, "policy": "sjf"}, parameters={"rate": 4}, scenario="no such"
    )
    assert list(found.items()) == [("rate", 4), ("max_num_seqs", 16), ("watermark", 0.5)]
    asked = run(settings=settings, scheduler={"max_num_seqs": 16, "policy": "sjf"}, parameters={"rate": 4}, scenario="no such")
    assert asked_with(asked) == {"rate": 4, "max_num_seqs": 16, "policy": "sjf"}


def test_what_the_hardware_gives_a_server_is_no_setting_of_anybody() -> None:
    kv = memory_of(SIMULATED).most
    own = {"max_model_len": 32_768, "kv_cache_tokens": kv, "max_num_seqs": 256}
    assert unlike(own, SIMULATED) == {}
    assert unlike(own | {"kv_cache_tokens": 4096, "max_num_seqs": 16}, SIMULATED) == {
        "kv_cache_tokens": 4096,
        "max_num_seqs": 16,
    }
    assert unlike(own, {"runner": "torch", "hardware": None, "model": "m"}) == {}, "a GPU's memory is not recorded"
    assert unlike({"kv_cache_tokens": 8192}, {"runner": "null", "hardware": None, "model": "null"}) == {"kv_cache_tokens": 8192}


def test_of_a_scenario_its_own_values_are_not_asked_with() -> None:
    usual = scenarios.describe("noisy_neighbour")["values"]
    assert asked_with(run(scenario="noisy_neighbour", parameters={**usual, "noisy_from_s": 3.0})) == {"noisy_from_s": 3.0}


def test_of_a_scenario_that_is_gone_every_parameter_is_shown() -> None:
    (shown,) = with_departures([run(scenario="no such", parameters={"rate": 4})])
    assert shown["unlike_default"] == {"rate": 4}
