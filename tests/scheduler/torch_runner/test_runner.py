"""TorchRunner: one token or one error a row; whoever fails, fails alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from scheduler.core.plan import Chunk
from scheduler.core.request import Request, SamplingParams
from scheduler.errors import CapacityError, ModelError
from scheduler.runners.torch_runner.config import read_config
from scheduler.runners.torch_runner.runner import TorchRunner, halves
from scheduler.settings import ModelSettings
from tests.scheduler.torch_runner.harness import (
    GREEDY,
    Driver,
    load_runner,
    make_plan,
    output_of,
    prompt,
    resumed,
    write_tiny_model,
)

LENGTHS = (1, 3, 8, 9, 17, 40, 64, 100)
LONG = replace(GREEDY, ignore_eos=True)
WARM = SamplingParams(temperature=0.9, top_p=0.95, max_tokens=12, ignore_eos=True)


def requests(params: SamplingParams = LONG, lengths: tuple[int, ...] = LENGTHS) -> list[Request]:
    return [Request(f"r{i}", prompt(length, i), replace(params, seed=i)) for i, length in enumerate(lengths)]


@pytest.fixture(scope="module")
def alone(tiny_directory: Path) -> dict[str, list[int]]:
    """Each request by itself, its prompt in one chunk: what any other way of running it must give."""
    runner = load_runner(ModelSettings(model=str(tiny_directory), dtype="float32", device="cpu"), 200, 8)
    return {r.id: Driver(runner, budget=512).generate([r])[r.id] for r in requests()}


def test_a_directory_in_hugging_face_layout_says_what_it_can_hold(tiny: TorchRunner, tiny_directory: Path) -> None:
    capacity = tiny.capacity()
    assert (capacity.model, capacity.vocab_size, capacity.max_model_len) == (tiny_directory.name, 307, 512)
    assert (capacity.eos_token_ids, capacity.kv_tokens, capacity.device, capacity.dtype) == ((0,), 0, "cpu", "float32")
    assert not capacity.simulated
    assert tiny.live


@pytest.mark.parametrize("changes", [
    {"tie_word_embeddings": True},
    {"num_key_value_heads": 6, "rope_theta": 500000.0},
    {"rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }},
])  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_every_kind_of_llama_computes_what_transformers_does(tmp_path: Path, changes: dict[str, Any]) -> None:
    transformers = pytest.importorskip("transformers", reason="NEEDS THE TEST EXTRA: transformers")
    write_tiny_model(tmp_path, **changes)
    runner = load_runner(ModelSettings(model=str(tmp_path), dtype="float32", device="cpu"), 60, 8)
    reference = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    request = Request("a", prompt(200, 1), LONG)
    request.blocks = list(range(25))
    batch = runner._builder.build(make_plan(chunks=[Chunk(request, 0, 200, True)]))
    with torch.inference_mode():
        logits, _ = runner.model.forward(replace(batch, sampled=torch.arange(200)), runner._attention)
        assert (logits - reference(torch.tensor([request.tokens.tolist()])).logits[0]).abs().max() < 1e-3


@pytest.mark.parametrize("budget", [512, 64, 24, 13])
@pytest.mark.parametrize("arrivals", [1, 99])
def test_company_and_chunking_change_no_token(
    tiny: TorchRunner, alone: dict[str, list[int]], budget: int, arrivals: int
) -> None:
    assert Driver(tiny, budget, arrivals, seed=budget).generate(requests()) == alone


def test_block_size_changes_no_token(tiny_directory: Path, alone: dict[str, list[int]]) -> None:
    settings = ModelSettings(model=str(tiny_directory), dtype="float32", device="cpu")
    for block_size in (1, 5, 32):
        runner = load_runner(settings, 1200 // block_size, block_size)
        assert Driver(runner, 50).generate(requests()) == alone


def test_sub_batches_of_any_size_change_no_token(tiny: TorchRunner, alone: dict[str, list[int]]) -> None:
    for gather_bytes in (1, 20_000, 1 << 30):
        tiny._builder._gather_bytes = gather_bytes
        assert Driver(tiny, 64).generate(requests()) == alone


def test_the_order_of_rows_is_that_of_the_plan(tiny: TorchRunner, alone: dict[str, list[int]]) -> None:
    backwards = list(reversed(requests()))
    assert Driver(tiny, 512).generate(backwards) == {r.id: alone[r.id] for r in backwards}


def test_seeded_sampling_does_not_depend_on_order_or_company(tiny: TorchRunner) -> None:
    single = {r.id: Driver(tiny).generate([r])[r.id] for r in requests(WARM)}
    assert Driver(tiny, 24).generate(requests(WARM)) == single
    assert Driver(tiny, 512, 1).generate(list(reversed(requests(WARM)))) == single
    mixed = [*requests(WARM), *(Request(f"greedy{i}", r.tokens, LONG) for i, r in enumerate(requests()))]
    outputs = Driver(tiny, 64).generate(mixed)
    assert {id: tokens for id, tokens in outputs.items() if id in single} == single


def test_another_seed_gives_other_tokens(tiny: TorchRunner) -> None:
    ids = prompt(20, 1)
    params = replace(WARM, top_p=1.0, temperature=2.0, max_tokens=30)
    first, again, other = (Request(name, ids, replace(params, seed=seed)) for name, seed in zip("abc", (1, 1, 2), strict=True))
    outputs = Driver(tiny).generate([first, again, other])
    assert outputs["a"] == outputs["b"] != outputs["c"]


def test_a_resumed_request_goes_on_with_the_same_tokens(tiny: TorchRunner) -> None:
    expected = Driver(tiny).generate(requests(WARM, (33,)))["r0"]
    driver, request = Driver(tiny, 20), requests(WARM, (33,))[0]
    while request.output_tokens < 5:
        driver.step([request])
    driver.generate([resumed(request)])
    assert output_of(request) == expected


def test_stale_blocks_of_others_are_never_seen(tiny: TorchRunner, alone: dict[str, list[int]]) -> None:
    for pool in (*tiny.cache.keys, *tiny.cache.values):
        pool.fill_(1e4)
    assert Driver(tiny, 24).generate(requests()) == alone


# ---- NaN


POISON = 257


def poison(runner: TorchRunner) -> None:
    """Reading POISON gives no number; no other token is touched (the head is another matrix)."""
    runner.model.embedding[POISON] = torch.nan


def test_no_healthy_answer_reads_poison(alone: dict[str, list[int]]) -> None:
    assert all(POISON not in tokens for tokens in alone.values())


def test_a_row_without_numbers_is_an_error_and_its_neighbours_are_unharmed(
    tiny: TorchRunner, alone: dict[str, list[int]]
) -> None:
    poison(tiny)
    bad = Request("bad", [1, 2, POISON, 4], LONG)
    driver = Driver(tiny, 64)
    outputs = driver.generate([*requests()[:4], bad, *requests()[4:]])
    assert driver.errors == {"bad": "nan_logits"}
    assert outputs.pop("bad") == []
    assert outputs == alone


def test_a_chunk_that_samples_nothing_reports_at_the_row_that_would(tiny: TorchRunner) -> None:
    poison(tiny)
    bad = Request("bad", [1, POISON, *prompt(30, 1)], LONG)
    driver = Driver(tiny, 10)
    driver.generate([bad])
    assert [output.errors for output in driver.outputs] == [{}, {}, {}, {0: "nan_logits"}]
    assert [len(output.tokens) for output in driver.outputs] == [0, 0, 0, 1]


def test_blocks_of_a_failed_request_are_clean_for_the_next(tiny: TorchRunner, alone: dict[str, list[int]]) -> None:
    poison(tiny)
    driver = Driver(tiny, 64)
    bad = Request("bad", [POISON] * 100, LONG)
    driver.generate([bad])
    driver.free = [*driver.free, *bad.blocks]
    assert all(torch.isfinite(pool).all() for pool in (*tiny.cache.keys, *tiny.cache.values))
    assert driver.generate(requests()[:3]) == {r.id: alone[r.id] for r in requests()[:3]}


def test_a_released_id_starts_clean(tiny: TorchRunner, alone: dict[str, list[int]]) -> None:
    poison(tiny)
    Driver(tiny).generate([Request("r0", [POISON], LONG)])
    assert Driver(tiny).generate(requests()[:1]) == {"r0": alone["r0"]}


# ---- memory


def starve(runner: TorchRunner, most_tokens: int, error: Exception) -> list[int]:
    """Passes of more than so many tokens fail; the sizes tried are noted."""
    forward, tried = runner.model.forward, []

    def limited(batch: Any, attention: Any) -> Any:
        tried.append(len(batch.ids))
        if len(batch.ids) > most_tokens:
            raise error
        return forward(batch, attention)

    runner.model.forward = limited  # type: ignore[method-assign]
    return tried


CPU_ERROR = RuntimeError("[enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory: you tried 9 bytes.")


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), MemoryError(), CPU_ERROR])
def test_out_of_memory_halves_the_plan_and_changes_no_token(
    tiny: TorchRunner, alone: dict[str, list[int]], error: Exception
) -> None:
    tried = starve(tiny, 110, error)
    driver = Driver(tiny, 512)
    assert driver.generate(requests()) == alone
    assert driver.errors == {}
    assert max(tried) > 110


def test_what_does_not_fit_alone_fails_alone(tiny: TorchRunner, alone: dict[str, list[int]]) -> None:
    starve(tiny, 70, MemoryError())
    driver = Driver(tiny, 512)
    outputs = driver.generate(requests())
    assert driver.errors == {"r7": "oom"}
    assert outputs == {**alone, "r7": []}


def test_a_first_chunk_out_of_memory_fails_its_request_when_it_would_sample(tiny: TorchRunner) -> None:
    tried = starve(tiny, 30, MemoryError())
    driver = Driver(tiny, 40)
    driver.generate([Request("a", prompt(60, 1), LONG)])
    assert tried == [40, 20]
    assert driver.errors == {"a": "oom"}


def test_other_errors_are_raised(tiny: TorchRunner) -> None:
    starve(tiny, 0, RuntimeError("a real fault"))
    with pytest.raises(RuntimeError, match="a real fault"):
        Driver(tiny).generate(requests())


def test_halves_keep_every_part_and_the_order_of_rows() -> None:
    every = requests(lengths=(4,) * 9)
    for decodes in range(1, 9):
        chunks = [Chunk(request, 0, 4, True) for request in every[decodes:]]
        plan = make_plan(every[:decodes], chunks)
        first, second = halves(plan)
        assert [*first.decodes, *second.decodes] == every[:decodes]
        assert [*first.chunks, *second.chunks] == chunks
        assert not first.empty
        assert not second.empty


# ---- the rest


def test_an_empty_plan_gives_no_tokens(tiny: TorchRunner) -> None:
    output = tiny.run(make_plan())
    assert output.tokens == []
    assert output.elapsed >= 0


def test_elapsed_is_the_time_it_took(tiny: TorchRunner) -> None:
    driver = Driver(tiny)
    driver.generate(requests())
    assert all(0 < output.elapsed < 60e9 for output in driver.outputs)


def test_early_stops_cannot_be_chosen_before_min_tokens(tiny: TorchRunner) -> None:
    greedy = Driver(tiny).generate(requests(lengths=(9,)))["r0"]
    stop = greedy[2]
    params = replace(LONG, min_tokens=6, stop_token_ids=(stop, 9999), ignore_eos=True)
    tokens = Driver(tiny).generate(requests(params, (9,)))["r0"]
    assert stop not in tokens[:6]
    assert tokens[:2] == greedy[:2]


def test_a_cache_that_memory_cannot_hold_is_a_capacity_error(tiny: TorchRunner) -> None:
    with pytest.raises(CapacityError, match="KV cache") as caught:
        tiny.allocate(1 << 44, 16)
    assert caught.value.param == "kv_cache_tokens"


@pytest.mark.parametrize("changes", [
    {"model_type": "gpt2"},
    {"hidden_act": "gelu"},
    {"attention_bias": True},
    {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}},
    {"quantization_config": {"bits": 4}},
])  # fmt: skip
def test_traits_that_are_not_supported_are_refused_by_name(tmp_path: Path, changes: dict[str, Any]) -> None:
    write_tiny_model(tmp_path, **changes)
    with pytest.raises(ModelError, match="|".join(["yarn", *(str(name) for name in changes), "quantized"])):
        read_config(tmp_path)


def test_a_missing_tensor_is_a_model_error_that_names_the_file(tmp_path: Path) -> None:
    write_tiny_model(tmp_path, num_hidden_layers=2)
    config = (tmp_path / "config.json").read_text().replace('"num_hidden_layers": 2', '"num_hidden_layers": 3')
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(ModelError, match=r"model\.safetensors"):
        TorchRunner(ModelSettings(model=str(tmp_path), device="cpu"), lambda text, done, total: None)
