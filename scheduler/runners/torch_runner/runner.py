"""TorchRunner: runs plans on a real model. Joins batch, model, cache and sampler; decides nothing about who runs.

Out of memory within a step: the plan is run as two halves; a part that cannot be halved fails alone. A sequence whose
numbers went wrong (out of memory, NaN) in a chunk that samples nothing is remembered, and reported at the step in which
it would have got a token. Invariant: one token or one error for each sampling row; neighbours of a failed row unharmed.
"""

from __future__ import annotations

import time
from dataclasses import replace

import torch
from torch import Tensor

from scheduler.core.plan import StepOutput, StepPlan
from scheduler.core.request import Request
from scheduler.errors import CapacityError
from scheduler.runners.base import Capacity
from scheduler.runners.torch_runner.attention import PagedAttention
from scheduler.runners.torch_runner.batch import Batch, BatchBuilder
from scheduler.runners.torch_runner.config import read_config
from scheduler.runners.torch_runner.device import gather_bytes, kv_tokens, out_of_memory, pick_device, pick_dtype
from scheduler.runners.torch_runner.gguf_convert import Progress
from scheduler.runners.torch_runner.kv_cache import KVCache
from scheduler.runners.torch_runner.model import load_model
from scheduler.runners.torch_runner.sampler import NAN_LOGITS, choose
from scheduler.runners.torch_runner.weights import ensure
from scheduler.settings import ModelSettings
from scheduler.text.bundle import Text
from scheduler.text.bundle import load as load_text

OUT_OF_MEMORY = "oom"


class TorchRunner:
    """A Llama-family model on the CPU or a CUDA device. Loading happens here; `allocate` before the first `run`."""

    live = True

    def __init__(self, settings: ModelSettings, progress: Progress) -> None:
        if settings.threads:
            torch.set_num_threads(settings.threads)
        self.device = pick_device(settings.device)
        self.dtype = pick_dtype(settings.dtype, self.device)
        directory = ensure(settings, progress)
        self.config = read_config(directory)
        self._text: Text = load_text(settings)
        layers = self.config.layers
        self.model = load_model(
            directory, self.config, self.device, self.dtype, lambda done: progress("loading layers", done, layers)
        )
        self._doomed: dict[str, str] = {}

    def capacity(self) -> Capacity:
        """What the loaded model can hold; KV memory is bounded here only on a CUDA device."""
        return Capacity(
            model=self._text.name,
            hardware=None,
            vocab_size=self.config.vocab_size,
            max_model_len=self.config.max_positions,
            kv_tokens=kv_tokens(self.config, self.device, self.dtype),
            eos_token_ids=self._text.eos_token_ids,
            simulated=False,
            device=self.device.type,
            dtype=str(self.dtype).removeprefix("torch."),
        )

    def allocate(self, blocks: int, block_size: int) -> None:
        """Make the KV pools."""
        try:
            self.cache = KVCache(self.config, blocks, block_size, self.device, self.dtype)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            raise CapacityError(f"no memory for a KV cache of {blocks * block_size} tokens", "kv_cache_tokens") from error
        self._builder = BatchBuilder(self.cache, gather_bytes(self.device))
        self._attention = PagedAttention(self.config, self.cache)

    def run(self, plan: StepPlan) -> StepOutput:
        """One forward pass and its tokens; `elapsed` ends when they are on the host."""
        started = time.perf_counter_ns()
        tokens: dict[str, int] = {}
        if not plan.empty:
            self._run(plan, tokens)
        sampling = plan.sampling
        errors = {row: self._doomed[request.id] for row, request in enumerate(sampling) if request.id in self._doomed}
        chosen = [tokens.get(request.id, 0) for request in sampling]
        return StepOutput(tokens=chosen, elapsed=time.perf_counter_ns() - started, errors=errors)

    def release(self, request: Request) -> None:
        """Forget what went wrong with it."""
        self._doomed.pop(request.id, None)

    def _run(self, plan: StepPlan, tokens: dict[str, int]) -> None:
        """Fill `tokens` by request id; halve the plan where memory does not do."""
        try:
            tokens.update(self._forward(plan))
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
        else:
            return
        # Outside the handler: the exception's traceback would keep the failed pass's tensors alive.
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        if len(plan.decodes) + len(plan.chunks) == 1:
            for request in (*plan.decodes, *(chunk.request for chunk in plan.chunks)):
                self._doomed[request.id] = OUT_OF_MEMORY
            return
        for half in halves(plan):
            self._run(half, tokens)

    @torch.inference_mode()
    def _forward(self, plan: StepPlan) -> dict[str, int]:
        batch = self._builder.build(plan)
        logits, finite = self.model.forward(batch, self._attention)
        if not bool(finite.all()):
            self._contain(batch, finite)
        sampling = plan.sampling
        if not sampling:
            return {}
        choice = choose(logits, sampling)
        for row, detail in choice.errors.items():
            self._doomed[sampling[row].id] = detail
        return {request.id: token for request, token in zip(sampling, choice.tokens, strict=True)}

    def _contain(self, batch: Batch, finite: Tensor) -> None:
        """Sequences with numbers that are none fail at their next sampling row, and leave no such number in the cache."""
        flags, first = finite.tolist(), 0
        for request, tokens in batch.owners:
            if not all(flags[first : first + tokens]):
                self._doomed[request.id] = NAN_LOGITS
                self.cache.scrub(request.blocks)
            first += tokens


def halves(plan: StepPlan) -> tuple[StepPlan, StepPlan]:
    """The plan as two, of at least one part each: first decodes, then chunks, cut in the middle."""
    decodes, chunks = plan.decodes, plan.chunks
    middle = (len(decodes) + len(chunks)) // 2
    cut = max(0, middle - len(decodes))
    first = replace(plan, decodes=decodes[:middle], decode_numbers=plan.decode_numbers[:middle], chunks=chunks[:cut])
    second = replace(plan, decodes=decodes[middle:], decode_numbers=plan.decode_numbers[middle:], chunks=chunks[cut:])
    return first, second
