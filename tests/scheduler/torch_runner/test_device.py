"""Devices and types: what `auto` means, and what an out-of-memory error looks like."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from scheduler.errors import SettingsError
from scheduler.runners.torch_runner.config import LlamaConfig
from scheduler.runners.torch_runner.device import kv_tokens, out_of_memory, pick_device, pick_dtype
from scheduler.runners.torch_runner.kv_cache import bytes_per_token

CPU = torch.device("cpu")
SMOLLM = LlamaConfig(49152, 576, 1536, 30, 9, 3, 64, 8192, 1e-5, 1e5, None, True)


@pytest.mark.parametrize(("flags", "dtype"), [
    ("fpu avx2 avx512f avx512_bf16", torch.bfloat16),
    ("fpu avx2 amx_bf16 amx_tile", torch.bfloat16),
    ("fpu avx2 avx512f avx512_vnni", torch.float32),
    ("fpu avx512_bf16_of_another_world", torch.float32),
])  # fmt: skip
def test_auto_is_bfloat16_only_where_the_processor_has_it(tmp_path: Path, flags: str, dtype: torch.dtype) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text(f"processor\t: 0\nmodel name\t: avx512_bf16\nflags\t\t: {flags}\n\nprocessor\t: 1\nflags\t\t: {flags}\n")
    assert pick_dtype("auto", CPU, info) == dtype
    assert pick_dtype("float32", CPU, info) == torch.float32
    assert pick_dtype("bfloat16", CPU, info) == torch.bfloat16


def test_auto_is_float32_where_the_system_does_not_tell(tmp_path: Path) -> None:
    assert pick_dtype("auto", CPU, tmp_path / "absent") == torch.float32


def test_cpu_is_the_cpu_and_leaves_the_cache_to_the_settings() -> None:
    assert pick_device("cpu") == CPU
    assert kv_tokens(SMOLLM, CPU, torch.float32) == 0
    assert bytes_per_token(SMOLLM, torch.bfloat16) == 23_040


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_cuda_without_a_device_is_refused_and_auto_falls_back() -> None:
    assert pick_device("auto") == CPU
    with pytest.raises(SettingsError, match="cuda") as caught:
        pick_device("cuda")
    assert caught.value.param == "device"


def test_memory_errors_are_told_from_others() -> None:
    assert out_of_memory(MemoryError())
    assert out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert not out_of_memory(RuntimeError("shape mismatch"))
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 58, dtype=torch.uint8)
    assert out_of_memory(caught.value)
