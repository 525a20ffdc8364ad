"""Settings of the scheduler and of the model: one table, from which flags, PATCH, docs and the Policy page are made.

Names are vLLM's where vLLM has one. Invariant: a SchedulerSettings that exists is valid; `change` returns a new one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any

from scheduler.errors import SettingsError

MAX_TOKENS = 1 << 20


def setting(
    default: Any,
    help: str,
    *,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    live: bool = True,
    vllm: bool = False,
    cuda: Any = None,
) -> Any:
    """A dataclass field with what people need to know of it. `cuda`: the default where a CUDA device computes."""
    meta = {"help": help, "unit": unit, "low": low, "high": high, "choices": choices, "live": live, "vllm": vllm}
    meta["cuda"] = default if cuda is None else cuda
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=meta)
    return field(default=default, metadata=meta)


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """Everything that decides who runs when. All live but the four marked otherwise."""

    policy: str = setting("fcfs", "order in which waiting requests are admitted", live=True, vllm=True)
    policy_params: dict[str, Any] = setting({}, "parameters of the policy; see its page")
    max_num_seqs: int = setting(
        16, "most requests running at once; a lower limit drains, it never preempts",
        unit="requests", low=1, high=4096, vllm=True, cuda=256,
    )  # fmt: skip
    max_num_batched_tokens: int = setting(
        256, "token budget of a step; never below max_num_seqs", unit="tokens", low=1, high=MAX_TOKENS, vllm=True, cuda=8192
    )
    max_model_len: int = setting(
        2048, "most tokens of a sequence, prompt and output", unit="tokens", low=8, high=MAX_TOKENS, live=False, vllm=True
    )
    enable_chunked_prefill: bool = setting(True, "a prompt may be computed over several steps", vllm=True)
    long_prefill_token_threshold: int = setting(
        0, "most prefill tokens of one request in a step; 0: no cap", unit="tokens", low=0, high=MAX_TOKENS, vllm=True
    )
    batching: str = setting(
        "continuous", "continuous: free slots fill in every step; merge: newcomers are prefilled apart, then join the batch; "
        "static: one batch at a time", choices=("continuous", "merge", "static"),
    )  # fmt: skip
    allocation: str = setting(
        "on_demand", "on_demand: blocks as tokens come, preempt when out; reserve: room for the whole output at admission",
        choices=("on_demand", "reserve"),
    )  # fmt: skip
    watermark: float = setting(
        0.01, "share of the KV blocks that admission keeps free for running requests", low=0.0, high=0.5, vllm=True
    )
    kv_cache_tokens: int = setting(6144, "size of the KV cache", unit="tokens", low=64, high=1 << 26, live=False, cuda=0)
    block_size: int = setting(16, "tokens of a KV block", unit="tokens", low=1, high=256, live=False, vllm=True)
    enable_prefix_caching: bool = setting(True, "full blocks of equal prefixes are shared", live=False, vllm=True)
    max_num_queued_reqs: int = setting(
        10_000, "most waiting requests; one more is refused", unit="requests", low=1, high=1_000_000, vllm=True
    )
    max_num_queued_tokens: int = setting(
        0, "most waiting prompt tokens; 0: no bound", unit="tokens", low=0, high=1 << 40, vllm=True
    )
    admission: str = setting(
        "bounded", "bounded: refuse when the queue is full; shed: also refuse at once what cannot meet its TTFT bound",
        choices=("bounded", "shed"),
    )  # fmt: skip
    ttft_slo_ms: int = setting(
        2000, "bound on TTFT that shed holds a request to which names no deadline_ms", unit="ms", low=1, high=86_400_000
    )
    shed_safety: float = setting(1.2, "factor on the estimated TTFT before shed compares it with the bound", low=0.1, high=10.0)
    default_timeout_ms: int = setting(600_000, "time-out of a request that names none", unit="ms", low=1, high=86_400_000)
    tenant_max_running: int = setting(
        0, "most running requests of one tenant, others of it wait for `quota`; 0: off", unit="requests", low=0, high=4096
    )
    tenant_max_tokens: int = setting(
        0, "most tokens (prompt and max output) of one tenant's running requests; one request may always run; 0: off",
        unit="tokens", low=0, high=1 << 40,
    )  # fmt: skip
    itl_target_ms: float = setting(
        0.0, "what a step may take: its token budget is as large as that allows, prefills give way, decodes never; 0: off",
        unit="ms", low=0.0, high=60_000.0,
    )  # fmt: skip
    long_prefill_token_threshold_adaptive: bool = setting(
        False, "the threshold is at least a fair share: max_num_batched_tokens // (running + waiting)", vllm=True
    )
    max_head_skips: int = setting(
        0, "how often a waiting request that lacks KV blocks may be passed by others, before all behind it wait; 0: never",
        unit="requests", low=0, high=10_000,
    )  # fmt: skip
    prefix_salt_by_tenant: bool = setting(
        False, "prefixes are hit within a tenant only, so that a hit tells nobody what another tenant asked", live=False
    )

    def __post_init__(self) -> None:
        for spec in fields(self):
            _check(spec, getattr(self, spec.name))
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise SettingsError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) must be at least max_num_seqs ({self.max_num_seqs}): "
                "each running request gets a token in every step",
                "max_num_batched_tokens",
            )
        if 0 < self.kv_cache_tokens < self.block_size:
            raise SettingsError("kv_cache_tokens must hold at least one block", "kv_cache_tokens")

    def change(self, changes: Mapping[str, Any], *, live: bool = False) -> SchedulerSettings:
        """A copy with `changes`; raises SettingsError naming an unknown, ill-typed or (if `live`) restart-only field."""
        known = {spec.name: spec for spec in fields(self)}
        for name, value in changes.items():
            if name not in known:
                raise SettingsError(f"unknown setting {name!r}; known: {', '.join(sorted(known))}", name)
            if live and not known[name].metadata["live"] and value != getattr(self, name):
                raise SettingsError(f"{name} needs a restart", name)
        return replace(self, **changes)

    def fit(self, most: int) -> SchedulerSettings:
        """Itself, where a device holds `most` tokens of KV cache (0: the settings decide); raises SettingsError if not."""
        if 0 < most < self.kv_cache_tokens:
            raise SettingsError(f"kv_cache_tokens is over the {most} that fit", "kv_cache_tokens")
        return self

    def as_pairs(self) -> tuple[tuple[str, object], ...]:
        """(name, value) in declaration order, as events carry it."""
        return tuple((spec.name, getattr(self, spec.name)) for spec in fields(self))


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What computes. runner: "torch", "simulated" or "null"."""

    runner: str = "torch"
    model: str = "SmolLM2-135M-Instruct"
    device: str = "auto"
    dtype: str = "auto"
    hardware: str | None = None
    cache_dir: str = "data/models"
    threads: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.runner not in ("torch", "simulated", "null"):
            raise SettingsError(f"runner must be torch, simulated or null, not {self.runner!r}", "runner")
        if self.device not in ("auto", "cpu", "cuda"):
            raise SettingsError(f"device must be auto, cpu or cuda, not {self.device!r}", "device")
        if self.dtype not in ("auto", "float32", "bfloat16", "float16"):
            raise SettingsError(f"dtype must be auto, float32, bfloat16 or float16, not {self.dtype!r}", "dtype")


def parse_pairs(pairs: list[str]) -> dict[str, Any]:
    """`k=v` strings, typed by the table above; `policy_params.x=1` sets a parameter of the policy."""
    known = {spec.name: spec for spec in fields(SchedulerSettings)}
    changes: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise SettingsError(f"expected name=value, got {pair!r}", name)
        if name.startswith("policy_params."):
            changes.setdefault("policy_params", {})[name.removeprefix("policy_params.")] = _number_or_text(text)
        elif name not in known:
            raise SettingsError(f"unknown setting {name!r}; known: {', '.join(sorted(known))}", name)
        else:
            changes[name] = _parse(known[name], text)
    return changes


def describe() -> list[dict[str, Any]]:
    """The table for people and pages: name, type, default, cuda default, help, unit, range, live, vllm."""
    rows = []
    for spec in fields(SchedulerSettings):
        default = {} if spec.name == "policy_params" else spec.default
        rows.append({"name": spec.name, "type": _kind(spec), "default": default, **spec.metadata})
    return rows


def _kind(spec: Field[Any]) -> str:
    return str(spec.type).split("[")[0]


def _check(spec: Field[Any], value: object) -> None:
    kind, meta = _kind(spec), spec.metadata
    kinds: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,), "dict": (dict,)}
    if not isinstance(value, kinds[kind]) or (kind != "bool" and isinstance(value, bool)):
        raise SettingsError(f"{spec.name} must be of type {kind}, not {value!r}", spec.name)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise SettingsError(f"{spec.name} must be finite", spec.name)
        if meta["low"] is not None and value < meta["low"]:
            raise SettingsError(f"{spec.name} must be at least {meta['low']}, not {value}", spec.name)
        if meta["high"] is not None and value > meta["high"]:
            raise SettingsError(f"{spec.name} must be at most {meta['high']}, not {value}", spec.name)
    if meta["choices"] and value not in meta["choices"]:
        raise SettingsError(f"{spec.name} must be one of {', '.join(meta['choices'])}, not {value!r}", spec.name)


def _parse(spec: Field[Any], text: str) -> Any:
    kind = _kind(spec)
    if kind == "bool":
        if text.lower() not in ("true", "false"):
            raise SettingsError(f"{spec.name} must be true or false, not {text!r}", spec.name)
        return text.lower() == "true"
    if kind == "str":
        return text
    try:
        return int(text) if kind == "int" else float(text)
    except ValueError:
        raise SettingsError(f"{spec.name} must be of type {kind}, not {text!r}", spec.name) from None


def _number_or_text(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
