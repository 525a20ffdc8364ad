"""The same settings as flags of vLLM: every setting is either a flag or named as one that vLLM lacks."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from app.api.vllm_flags import vllm_flags
from scheduler.settings import SchedulerSettings, describe


@pytest.mark.parametrize("policy", ["fcfs", "priority", "vtc"])
def test_every_setting_is_a_flag_or_is_named_as_lacking(policy: str) -> None:
    found = vllm_flags(asdict(SchedulerSettings(policy=policy)), describe())
    assert len(found["flags"]) + len(found["lacks"]) == len(describe())
    assert (
        (f"--scheduling-policy {policy}" in found["flags"]) == (policy != "vtc") == (f"policy {policy}" not in found["lacks"])
    )
    assert "batching" in found["lacks"] and "--max-num-seqs 16" in found["flags"]


def test_what_is_off_has_a_flag_that_says_no() -> None:
    flags = vllm_flags(asdict(SchedulerSettings(enable_chunked_prefill=False)), describe())["flags"]
    assert "--no-enable-chunked-prefill" in flags and "--enable-prefix-caching" in flags
