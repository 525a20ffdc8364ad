"""What to compute on, in which type, and how much memory there is for it. Knows no model but its shape."""

from __future__ import annotations

from pathlib import Path

import torch

from scheduler.errors import SettingsError
from scheduler.runners.torch_runner.config import LlamaConfig
from scheduler.runners.torch_runner.kv_cache import bytes_per_token

_CPU_INFO = Path("/proc/cpuinfo")
_BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16"}
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

# What stays in the last-level cache between being gathered and being read; measured: 2 to 8 MB are alike, none is 10 % worse.
_CPU_GATHER_BYTES = 4 << 20
# On a GPU a group is bounded only so that temporaries stay small beside the pool.
_CUDA_GATHER_BYTES = 256 << 20
# Share of the free memory that the pool may take; the rest is for the tensors of a pass.
_CUDA_KV_SHARE = 0.85


def pick_device(name: str) -> torch.device:
    """auto: a CUDA device if there is one."""
    if name == "cuda" and not torch.cuda.is_available():
        raise SettingsError("device cuda was asked for, but torch sees none", "device")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def pick_dtype(name: str, device: torch.device, cpu_info: Path = _CPU_INFO) -> torch.dtype:
    """auto: bfloat16 where the processor computes it natively; emulated, it would be slower than float32."""
    if name != "auto":
        return _DTYPES[name]
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    return torch.bfloat16 if _cpu_flags(cpu_info) & _BFLOAT16_FLAGS else torch.float32


def kv_tokens(config: LlamaConfig, device: torch.device, dtype: torch.dtype) -> int:
    """Tokens of KV cache that fit into the device's free memory; 0 on the CPU, where the settings decide."""
    if device.type != "cuda":
        return 0
    free, _ = torch.cuda.mem_get_info(device)
    return int(free * _CUDA_KV_SHARE) // bytes_per_token(config, dtype)


def gather_bytes(device: torch.device) -> int:
    """Most bytes of keys and values that one group of queries gathers."""
    return _CUDA_GATHER_BYTES if device.type == "cuda" else _CPU_GATHER_BYTES


def out_of_memory(error: BaseException) -> bool:
    """True for the ways in which torch says so; on the CPU it is a RuntimeError with a known sentence."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)


def _cpu_flags(path: Path) -> set[str]:
    """The processor's flags; none where the system does not tell."""
    if not path.is_file():
        return set()
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return {flag for line in lines if line.startswith("flags") for flag in line.partition(":")[2].split()}
