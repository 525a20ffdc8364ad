"""LlamaModel: the decoder itself, in plain torch, over one flat line of tokens. Knows no request and no cache layout.

Numbers follow Hugging Face's Llama operation by operation (norms and rotary angles in float32), so that float32 runs
agree token for token. q, k, v and gate, up are one matrix each; the head computes only the rows that sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.nn import functional

from scheduler.errors import ModelError, in_words
from scheduler.runners.torch_runner.batch import Batch
from scheduler.runners.torch_runner.config import LlamaConfig, RotaryScaling
from scheduler.runners.torch_runner.linear import Linear, best_linear

Attention = Callable[[int, Batch, Tensor, Tensor, Tensor], Tensor]


@dataclass(slots=True)
class Layer:
    """Weights of one decoder layer; norms are vectors, the rest are Linears."""

    attention_norm: Tensor
    qkv: Linear
    out: Linear
    mlp_norm: Tensor
    gate_up: Linear
    down: Linear


class LlamaModel:
    """`forward(batch, attention)` → (logits of the sampled tokens, a flag per token: its numbers are finite)."""

    def __init__(self, config: LlamaConfig, embedding: Tensor, layers: list[Layer], final_norm: Tensor, head: Linear) -> None:
        self.config = config
        self.embedding = embedding
        self.layers = layers
        self.final_norm = final_norm
        self.head = head
        self._frequencies = rotary_frequencies(config).to(embedding.device)

    def forward(self, batch: Batch, attention: Attention) -> tuple[Tensor, Tensor]:
        """One pass. Attention is called as (layer, batch, queries, keys, values) once a layer."""
        x = functional.embedding(batch.ids, self.embedding)
        cosine, sine = self._rotation(batch.positions)
        for number, layer in enumerate(self.layers):
            queries, keys, values = self._project(layer, x, cosine, sine)
            x = x + layer.out(attention(number, batch, queries, keys, values))
            gate, up = layer.gate_up(self._norm(x, layer.mlp_norm)).chunk(2, dim=-1)
            x = x + layer.down(functional.silu(gate) * up)
        logits = self.head(self._norm(x[batch.sampled], self.final_norm))
        return logits, torch.isfinite(x.float().sum(-1))

    def _project(self, layer: Layer, x: Tensor, cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        config = self.config
        heads = layer.qkv(self._norm(x, layer.attention_norm)).view(len(x), -1, config.head_dim)
        turning, values = heads[:, : -config.kv_heads], heads[:, -config.kv_heads :]
        turned = torch.addcmul(turning * cosine, turning.roll(config.head_dim // 2, -1), sine)
        return turned[:, : config.heads], turned[:, config.heads :], values

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.config.norm_eps)
        return weight * scaled.to(x.dtype)

    def _rotation(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines, and sines with the first half negated: x·cos + roll(x)·sin is the rotation of both halves."""
        angles = positions[:, None].float() * self._frequencies
        cosine, sine = angles.cos(), angles.sin()
        dtype = self.embedding.dtype
        return torch.cat((cosine, cosine), -1).to(dtype)[:, None], torch.cat((-sine, sine), -1).to(dtype)[:, None]


def rotary_frequencies(config: LlamaConfig) -> Tensor:
    """Radians a position, for each pair of dimensions, in float32."""
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    frequencies = 1.0 / config.rope_theta**exponents
    return frequencies if config.rope_scaling is None else _stretched(frequencies, config.rope_scaling)


def _stretched(frequencies: Tensor, scaling: RotaryScaling) -> Tensor:
    wavelengths = 2 * math.pi / frequencies
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    blend = ((scaling.original_context / wavelengths - low) / (high - low)).clamp(0, 1)
    return (1 - blend) * frequencies / scaling.factor + blend * frequencies


def load_model(
    directory: Path, config: LlamaConfig, device: torch.device, dtype: torch.dtype, progress: Callable[[int], None]
) -> LlamaModel:
    """The model in `directory`/model.safetensors, tensor by tensor; `progress` hears the number of layers done."""
    path = directory / "model.safetensors"
    make = best_linear(device, dtype)
    try:
        with safe_open(path, framework="pt", device=str(device)) as file:
            read = _Reader(file, dtype)
            layers = []
            for number in range(config.layers):
                layers.append(_layer(read, f"model.layers.{number}.", make))
                progress(number + 1)
            # A clone, where memory-mapped: a pass reads it all over, and the file may be replaced under us.
            embedding = read("model.embed_tokens.weight").clone()
            head = make(embedding if config.tied else read("lm_head.weight"))
            return LlamaModel(config, embedding, layers, read("model.norm.weight").clone(), head)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path}: {in_words(error)}", str(path)) from error


class _Reader:
    """Reads tensors by name, as `dtype`."""

    def __init__(self, file: safe_open, dtype: torch.dtype) -> None:
        self._file, self._dtype = file, dtype

    def __call__(self, *names: str) -> Tensor:
        """The named tensors, one below the other."""
        parts: list[Tensor] = [self._file.get_tensor(name).to(self._dtype) for name in names]  # type: ignore[no-untyped-call]
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def _layer(read: _Reader, prefix: str, make: Callable[[Tensor], Linear]) -> Layer:
    attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
    return Layer(
        attention_norm=read(f"{prefix}input_layernorm.weight").clone(),
        qkv=make(read(*(f"{attention}{part}_proj.weight" for part in "qkv"))),
        out=make(read(f"{attention}o_proj.weight").clone()),
        mlp_norm=read(f"{prefix}post_attention_layernorm.weight").clone(),
        gate_up=make(read(f"{mlp}gate_proj.weight", f"{mlp}up_proj.weight")),
        down=make(read(f"{mlp}down_proj.weight").clone()),
    )
