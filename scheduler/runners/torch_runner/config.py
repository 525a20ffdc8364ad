"""LlamaConfig: the shape of a decoder, read from a config.json in Hugging Face's words. Knows no weights and no torch.

Invariant: a LlamaConfig that exists describes a model which this room computes exactly; any trait it does not know
(sliding windows, biases, another activation, an unknown rotary scaling) is refused by name, never ignored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler.errors import ModelError, in_words


@dataclass(frozen=True, slots=True)
class RotaryScaling:
    """Llama 3's: long wavelengths are stretched by `factor`, short ones kept, those between blended."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context: int


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """A decoder's shape. kv_heads divides heads; tied: the output head is the embedding table."""

    vocab_size: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    max_positions: int
    norm_eps: float
    rope_theta: float
    rope_scaling: RotaryScaling | None
    tied: bool

    @property
    def group(self) -> int:
        """Query heads that share one key-value head."""
        return self.heads // self.kv_heads


def read_config(directory: Path) -> LlamaConfig:
    """The shape of the model in `directory`; raises ModelError naming what is missing or not supported."""
    path = directory / "config.json"
    try:
        raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        _refuse_unknown(raw, path)
        heads, rope = raw["num_attention_heads"], raw.get("rope_parameters") or {}
        return LlamaConfig(
            vocab_size=raw["vocab_size"],
            hidden=raw["hidden_size"],
            intermediate=raw["intermediate_size"],
            layers=raw["num_hidden_layers"],
            heads=heads,
            kv_heads=raw.get("num_key_value_heads") or heads,
            head_dim=raw.get("head_dim") or raw["hidden_size"] // heads,
            max_positions=raw["max_position_embeddings"],
            norm_eps=raw["rms_norm_eps"],
            rope_theta=float(rope.get("rope_theta") or raw.get("rope_theta") or 10000.0),
            rope_scaling=_scaling(raw.get("rope_scaling") or rope, path),
            tied=bool(raw.get("tie_word_embeddings", False)),
        )
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: {in_words(error)}", str(path)) from error
    except KeyError as error:
        raise ModelError(f"{path}: no {error.args[0]}", str(path)) from error


def _refuse_unknown(raw: dict[str, Any], path: Path) -> None:
    wanted = {"model_type": "llama", "hidden_act": "silu", "attention_bias": False, "mlp_bias": False}
    for name, value in wanted.items():
        if raw.get(name, value) != value:
            raise ModelError(f"{path}: {name} {raw[name]!r} is not supported, only {value!r}", str(path))
    if "model_type" not in raw:
        raise ModelError(f"{path}: no model_type", str(path))
    if raw.get("quantization_config"):
        raise ModelError(f"{path}: quantized weights are not supported", str(path))


def _scaling(raw: dict[str, Any], path: Path) -> RotaryScaling | None:
    kind = raw.get("rope_type") or raw.get("type") or "default"
    if kind == "default":
        return None
    if kind != "llama3":
        raise ModelError(f"{path}: rotary scaling {kind!r} is not supported", str(path))
    return RotaryScaling(
        raw["factor"], raw["low_freq_factor"], raw["high_freq_factor"], raw["original_max_position_embeddings"]
    )
