"""A Llama in a GGUF file → a directory in Hugging Face layout. Needs numpy and gguf, no torch. Knows no cache.

Quantised values become numbers once, here. They are stored as bfloat16: the type the model was published in, exact when
widened to float32, half the disk and start-up time of float32; the rounding (2^-9 relative) is far below the step of the
4-bit source. Whoever reads the directory, this program or another, computes with the same numbers.
llama.cpp stores the rows of q and k so that rotary pairs lie side by side; Hugging Face wants halves: undone here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, dequantize
from numpy.typing import NDArray
from safetensors import TensorSpec, serialize_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from scheduler.errors import ModelError

Progress = Callable[[str, int, int], None]

_CONTROL = 3  # llama.cpp's token type for specials
_TOP_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


@dataclass(frozen=True, slots=True)
class Source:
    """An open GGUF file and its metadata by key."""

    path: Path
    reader: Any

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a metadata key; ModelError if absent and no default is given."""
        entry = self.reader.fields.get(key)
        if entry is not None:
            return entry.contents()
        if default is None:
            raise ModelError(f"{self.path}: no {key}", str(self.path))
        return default


def convert(path: Path, target: Path, progress: Progress) -> None:
    """Write config.json, model.safetensors, tokenizer.json and the chat template of `path` into `target`."""
    progress("reading the weights file", 0, 0)
    source = Source(path, GGUFReader(path))
    if source.get("general.architecture") != "llama":
        raise ModelError(f"{path}: architecture {source.get('general.architecture')!r} is not llama", str(path))
    config = _config(source)
    _write_json(target / "config.json", config)
    _write_tokenizer(source, target)
    _write_weights(source, config, target / "model.safetensors", progress)


def _config(source: Source) -> dict[str, Any]:
    heads, width = source.get("llama.attention.head_count"), source.get("llama.embedding_length")
    names = {tensor.name for tensor in source.reader.tensors}
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(source.get("tokenizer.ggml.tokens")),
        "hidden_size": width,
        "intermediate_size": source.get("llama.feed_forward_length"),
        "num_hidden_layers": source.get("llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": source.get("llama.attention.head_count_kv", heads),
        "head_dim": source.get("llama.rope.dimension_count", width // heads),
        "max_position_embeddings": source.get("llama.context_length"),
        "rms_norm_eps": float(f"{source.get('llama.attention.layer_norm_rms_epsilon'):.6g}"),
        "rope_theta": source.get("llama.rope.freq_base", 10000.0),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": "output.weight" not in names,
        "bos_token_id": source.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": source.get("tokenizer.ggml.eos_token_id"),
        "torch_dtype": "bfloat16",
    }


def _write_weights(source: Source, config: dict[str, Any], path: Path, progress: Progress) -> None:
    tensors = dict(_tensors(source, config, progress))
    specs = {
        name: TensorSpec(dtype="bfloat16", shape=list(bits.shape), data_ptr=bits.ctypes.data, data_len=bits.nbytes)
        for name, bits in tensors.items()
    }
    serialize_file(specs, path, {"format": "pt"})


def _tensors(source: Source, config: dict[str, Any], progress: Progress) -> Iterator[tuple[str, NDArray[np.uint16]]]:
    heads = {".attn_q.": config["num_attention_heads"], ".attn_k.": config["num_key_value_heads"]}
    total, done = sum(int(tensor.n_bytes) for tensor in source.reader.tensors), 0
    for tensor in source.reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32, copy=False)
        for part, count in heads.items():
            if part in tensor.name:
                values = unpermute(values, count)
        yield hugging_face_name(tensor.name), to_bfloat16(values)
        done += int(tensor.n_bytes)
        progress("unpacking weights", done, total)


def hugging_face_name(name: str) -> str:
    """blk.3.attn_q.weight → model.layers.3.self_attn.q_proj.weight"""
    stem, _, kind = name.rpartition(".")
    if stem in _TOP_NAMES:
        return f"{_TOP_NAMES[stem]}.{kind}"
    block, number, part = (*stem.split("."), "", "")[:3]
    if block != "blk" or part not in _LAYER_NAMES:
        raise ModelError(f"unknown tensor {name!r}: not a plain Llama", name)
    return f"model.layers.{number}.{_LAYER_NAMES[part]}.{kind}"


def unpermute(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Within each head, (pair, 2) row order back to (2, pair)."""
    paired = rows.reshape(heads, -1, 2, rows.shape[1])
    return np.ascontiguousarray(paired.swapaxes(1, 2)).reshape(rows.shape)


def to_bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The upper halves of float32 bit patterns, rounded to nearest even; numpy has no such type."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (rounded >> np.uint32(16)).astype(np.uint16)


def _write_tokenizer(source: Source, target: Path) -> None:
    if (source.get("tokenizer.ggml.model"), source.get("tokenizer.ggml.pre")) != ("gpt2", "smollm"):
        raise ModelError(f"{source.path}: only the smollm kind of byte-level BPE can be built", str(source.path))
    tokens, kinds = source.get("tokenizer.ggml.tokens"), source.get("tokenizer.ggml.token_type")
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL]
    build_tokenizer(tokens, source.get("tokenizer.ggml.merges"), special).save(str(target / "tokenizer.json"))
    (target / "chat_template.jinja").write_text(source.get("tokenizer.chat_template"), encoding="utf-8")
    roles = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    _write_json(
        target / "tokenizer_config.json",
        {name: tokens[source.get(f"tokenizer.ggml.{role}_token_id")] for name, role in roles.items()}
        | {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": source.get("llama.context_length")},
    )


def build_tokenizer(tokens: list[str], merges: list[str], special: list[str]) -> Tokenizer:
    """llama.cpp's "smollm": each digit alone, then GPT-2's byte-level pieces, then BPE."""
    vocabulary = {token: number for number, token in enumerate(tokens)}
    pairs = [(left, right) for left, right in (merge.split(" ") for merge in merges)]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    return tokenizer


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2), encoding="utf-8")
