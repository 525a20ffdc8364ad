"""What tells runs of one scenario apart: only what is not as it is by default."""

from __future__ import annotations

from typing import Any

from app.api.departures import departures, with_departures
from app.supervisor import scenarios


def run(**changes: Any) -> dict[str, Any]:
    return {"id": "one", "scenario": "poisson", "parameters": None, "settings": None, "scheduler": None} | changes


def test_parameters_and_settings_that_are_as_by_default_are_left_out() -> None:
    known = scenarios.describe("poisson")
    usual = known["values"] | {f"slo_{name}": value for name, value in known["slo"].items()}
    settings = {"policy": "sjf", "max_num_seqs": 16, "kv_cache_tokens": 8192, "policy_params": {}}
    (shown,) = with_departures([run(parameters={**usual, "rate": 7.5}, settings=settings)])
    assert shown["unlike_default"] == {"rate": 7.5, "kv_cache_tokens": 8192} and shown["id"] == "one"


def test_what_was_asked_for_this_run_alone_counts_and_a_device_has_defaults_of_its_own() -> None:
    assert departures(run(settings={"max_num_seqs": 256}, scheduler={"watermark": 0.2}), {}) == {"watermark": 0.2}


def test_of_a_scenario_that_is_gone_every_parameter_is_shown() -> None:
    (shown,) = with_departures([run(scenario="no such", parameters={"rate": 4})])
    assert shown["unlike_default"] == {"rate": 4}
