"""Advice goes no further than the hardware and the settings do, and says what helps where they end."""

from __future__ import annotations

import re
from typing import Any

import pytest

from app.store.advice import INSTEAD, Memory, memory_of, more_load, suggestion
from app.store.verdict import headline
from scheduler.runners.cost_model import available, load
from scheduler.settings import SchedulerSettings

RTX = "rtx4090-llama3.1-8b-tp1-bf16"
HELD = 41_408  # tokens of KV cache beside the weights


def test_no_more_memory_is_advised_than_the_hardware_holds() -> None:
    assert load(RTX).kv_capacity_tokens == HELD
    memory = memory_of({"runner": "simulated", "hardware": RTX})
    at = {"kv_cache_tokens": 16_384, "block_size": 16}
    assert suggestion("kv_blocks", at, memory=memory) == "kv_cache_tokens 32768"
    assert suggestion("kv_blocks", at | {"kv_cache_tokens": 32_768}, memory=memory) == "kv_cache_tokens 41408, all that fits"
    said = suggestion("kv_blocks", at | {"kv_cache_tokens": HELD}, memory=memory)
    assert said == f"{INSTEAD}: the 41408 tokens of KV cache are all that fit"


def test_what_a_device_holds_is_not_guessed_where_it_is_not_recorded() -> None:
    settings = {"kv_cache_tokens": 6144, "block_size": 16}
    for life in ({"runner": "torch"}, {"runner": "simulated", "hardware": "calibrated:run_1"}, {}):
        said = suggestion("kv_blocks", settings, memory=memory_of(life)) or ""
        assert said.startswith("kv_cache_tokens 8192 if that fits (how much does is not recorded)") and INSTEAD in said
        assert "as far as it fits" in (suggestion("kv_blocks", {}, memory=memory_of(life)) or "")
    assert suggestion("kv_blocks", settings, memory=memory_of({"runner": "null"})) == "kv_cache_tokens 8192"


@pytest.mark.parametrize("hardware", available())
@pytest.mark.parametrize("reason", ["slots", "token_budget", "kv_blocks", "step"])
def test_the_server_would_take_every_setting_that_is_advised(hardware: str, reason: str) -> None:
    """Advice after advice, as one who follows it would, until it names no setting any more."""
    memory = memory_of({"runner": "simulated", "hardware": hardware})
    assert memory.most
    settings = {"max_num_seqs": 100, "max_num_batched_tokens": 256, "kv_cache_tokens": 6144, "block_size": 16}
    for _ in range(40):
        said = suggestion(reason, settings, 0.9, memory=memory) or ""
        changes = {name: int(value) for name, value in re.findall(r"\b([a-z]+(?:_[a-z]+)+) (\d+)", said)}
        if not changes:
            break
        assert settings | changes != settings, said
        settings |= changes
        SchedulerSettings().change(settings).fit(memory.most)
    else:
        pytest.fail("advice without end")


def test_more_slots_come_with_the_tokens_that_they_need() -> None:
    settings: dict[str, Any] = {"max_num_seqs": 256, "max_num_batched_tokens": 256}
    assert suggestion("slots", settings) == "max_num_seqs 512 with max_num_batched_tokens 512"
    assert suggestion("slots", settings | {"max_num_seqs": 4096}) == f"{INSTEAD}: max_num_seqs is at its highest"


def test_limits_that_made_a_part_of_the_waiting_are_not_said_not_to_bind() -> None:
    settings = {"max_num_seqs": 16, "max_num_batched_tokens": 256}
    assert suggestion("step", settings, 0.01) == "a higher rate: the limits did not bind"
    assert suggestion("step", settings, 0.01, bound=0.03) == "a higher rate: the limits made 3 % of the waiting"
    assert suggestion("step", settings, 0.01, bound=0.002) == "a higher rate: the limits made under 1 % of the waiting"


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"duration_s": 60.0, "rate": 2.5, "users": 3}, "a higher `rate` than 2.5"),
        ({"users": 16}, "a higher `users` than 16"),
        ({"noisy_users": 0, "polite_rate": 1.0}, "a higher rate"),
        ({"points": "0:1 10:5"}, "a higher rate"),
        (None, "a higher rate"),
    ],
)
def test_more_load_is_said_by_the_parameter_that_makes_it(parameters: dict[str, Any] | None, words: str) -> None:
    assert more_load(parameters) == words
    assert suggestion("step", {}, 0.01, heavier=words) == f"{words}: the limits did not bind"
    assert headline("valid", None, {}, {}, heavier=words) == f"valid: nobody waited; try {words}"


def test_memory_unknown_is_another_thing_than_memory_without_bound() -> None:
    assert Memory() == Memory(most=None, known=True) and memory_of({"runner": "torch"}) == Memory(known=False)
