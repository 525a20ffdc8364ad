"""Builders for the torch runner: a tiny random Llama on disk, and a driver that makes StepPlans as a scheduler would.

The driver gives out blocks in a shuffled order, so that no sequence lies in one piece, and cuts prompts by a token budget.
"""

from __future__ import annotations

import json
import random
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from scheduler.core.plan import Chunk, StepOutput, StepPlan
from scheduler.core.request import Request, SamplingParams
from scheduler.runners.torch_runner.gguf_convert import build_tokenizer
from scheduler.runners.torch_runner.runner import TorchRunner
from scheduler.settings import ModelSettings
from scheduler.text.file_tokenizer import byte_alphabet

GREEDY = SamplingParams(temperature=0, max_tokens=32)
TINY: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 307,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": 0,
}


def write_tiny_model(directory: Path, **changes: Any) -> Path:
    """A random Llama in Hugging Face layout; `changes` to its config.json."""
    config = {**TINY, **changes}
    generator = torch.Generator().manual_seed(1)
    tensors = {
        name: torch.randn(shape, generator=generator) * (0.3 if len(shape) == 2 else 0.1) + (len(shape) == 1)
        for name, shape in _shapes(config).items()
    }
    save_file(tensors, directory / "model.safetensors", {"format": "pt"})
    (directory / "config.json").write_text(json.dumps(config))
    tokens = ["<|endoftext|>", *byte_alphabet()]
    build_tokenizer(tokens, [], tokens[:1]).save(str(directory / "tokenizer.json"))
    return directory


def _shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    width, inner, dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config["vocab_size"], width)}
    for number in range(config["num_hidden_layers"]):
        layer = f"model.layers.{number}."
        shapes |= {
            f"{layer}input_layernorm.weight": (width,),
            f"{layer}self_attn.q_proj.weight": (queries, width),
            f"{layer}self_attn.k_proj.weight": (keys, width),
            f"{layer}self_attn.v_proj.weight": (keys, width),
            f"{layer}self_attn.o_proj.weight": (width, queries),
            f"{layer}post_attention_layernorm.weight": (width,),
            f"{layer}mlp.gate_proj.weight": (inner, width),
            f"{layer}mlp.up_proj.weight": (inner, width),
            f"{layer}mlp.down_proj.weight": (width, inner),
        }
    shapes["model.norm.weight"] = (width,)
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (config["vocab_size"], width)
    return shapes


def load_runner(settings: ModelSettings, blocks: int = 600, block_size: int = 16) -> TorchRunner:
    """A runner with its pool."""
    runner = TorchRunner(settings, lambda text, done, total: None)
    runner.allocate(blocks, block_size)
    return runner


def make_plan(decodes: Sequence[Request] = (), chunks: Sequence[Chunk] = ()) -> StepPlan:
    """A plan as the core would hand it over."""
    return StepPlan(1, 0, tuple(decodes), tuple(request.number for request in decodes), list(chunks))


class Driver:
    """Runs requests to their ends: decodes first, then prompts in order of arrival, as far as the budget goes."""

    def __init__(self, runner: TorchRunner, budget: int = 512, arrivals: int = 99, seed: int = 0) -> None:
        self.runner, self.budget, self.arrivals = runner, budget, arrivals
        self.size = runner.cache.block_size
        self.free = list(range(runner.cache.blocks))
        random.Random(seed).shuffle(self.free)
        self.outputs: list[StepOutput] = []
        self.errors: dict[str, str] = {}

    def generate(self, requests: Sequence[Request]) -> dict[str, list[int]]:
        """Output tokens by request id; at most `arrivals` requests join in a step."""
        waiting, running = list(requests), []
        ends = set(self.runner.capacity().eos_token_ids)
        while waiting or running:
            running += [waiting.pop(0) for _ in range(min(self.arrivals, len(waiting)))]
            for request in self.step(running):
                last = request.tokens[-1] if request.output_tokens else None
                stopped = last in ends and not request.params.ignore_eos
                if stopped or request.id in self.errors or request.output_tokens == request.params.max_tokens:
                    running.remove(request)
                    self.runner.release(request)
        return {request.id: output_of(request) for request in requests}

    def step(self, running: Sequence[Request]) -> list[Request]:
        """One plan, run and committed; the requests that got a token or an error."""
        plan = self.plan(running)
        output = self.runner.run(plan)
        self.outputs.append(output)
        for chunk in plan.chunks:
            chunk.request.computed = chunk.start + chunk.tokens
        for row, (request, token) in enumerate(zip(plan.sampling, output.tokens, strict=True)):
            if row in output.errors:
                self.errors[request.id] = output.errors[row]
                continue
            request.tokens.append(token)
            request.computed = len(request.tokens) - 1
        return plan.sampling

    def plan(self, running: Sequence[Request]) -> StepPlan:
        decodes = [request for request in running if request.output_tokens and request.missing == 1]
        left, chunks = self.budget - len(decodes), []
        for request in decodes:
            self.cover(request, len(request.tokens))
        for request in running:
            tokens = min(left, request.missing)
            if request in decodes or tokens <= 0:
                continue
            self.cover(request, request.computed + tokens)
            chunks.append(Chunk(request, request.computed, tokens, tokens == request.missing))
            left -= tokens
        return make_plan(decodes, chunks)

    def cover(self, request: Request, tokens: int) -> None:
        """Blocks for so many tokens."""
        while len(request.blocks) * self.size < tokens:
            request.blocks.append(self.free.pop())


def output_of(request: Request) -> list[int]:
    return list(request.tokens[request.prompt_tokens :])


def resumed(request: Request) -> Request:
    """The request as a preemption leaves it: its tokens are kept, its blocks are gone."""
    request.blocks, request.computed = [], 0
    return request


def prompt(length: int, seed: int, vocabulary: int = 256) -> array[int]:
    """Random ids; 0, the end of text of the tiny model, is not among them."""
    source = random.Random(seed)
    return array("I", (source.randrange(1, vocabulary) for _ in range(length)))
