"""The torch runner on a CUDA device: the same answers as on the CPU. Skips, saying so, where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="NEEDS THE TORCH EXTRA")
if not torch.cuda.is_available():
    pytest.skip("NO CUDA DEVICE: the GPU tests did not run", allow_module_level=True)

from scheduler.core.request import Request, SamplingParams  # noqa: E402
from scheduler.settings import ModelSettings  # noqa: E402
from scheduler.text.bundle import load  # noqa: E402
from tests.scheduler.torch_runner.harness import GREEDY, Driver, load_runner, prompt, write_tiny_model  # noqa: E402
from tests.scheduler.torch_runner.model_cache import default_model  # noqa: E402

LENGTHS = (1, 3, 8, 17, 40, 100)


def requests(params: SamplingParams) -> list[Request]:
    return [Request(f"r{i}", prompt(length, i), params) for i, length in enumerate(LENGTHS)]


@pytest.mark.parametrize("budget", [512, 24])
def test_cuda_gives_the_tokens_of_the_cpu_in_float32(tmp_path: Path, budget: int) -> None:
    directory = write_tiny_model(tmp_path)
    outputs = []
    for device in ("cpu", "cuda"):
        runner = load_runner(ModelSettings(model=str(directory), dtype="float32", device=device), 200, 8)
        outputs.append(Driver(runner, budget).generate(requests(GREEDY)))
    assert outputs[0] == outputs[1]


def test_the_default_model_answers_on_cuda_in_its_own_type() -> None:
    settings = default_model()
    text = load(settings)
    runner = load_runner(ModelSettings(cache_dir=settings.cache_dir, device="cuda"))
    capacity = runner.capacity()
    assert capacity.device == "cuda"
    assert capacity.kv_tokens > 0
    ids = text.encode_chat([{"role": "user", "content": "What is the capital of France?"}])
    asked = [Request(f"r{i}", ids, SamplingParams(temperature=0, max_tokens=16)) for i in range(10)]
    outputs = Driver(runner, 64).generate(asked)
    assert all("Paris" in text.decode(tokens) for tokens in outputs.values())


def test_memory_that_runs_out_halves_the_plan_on_cuda(tmp_path: Path) -> None:
    """A pool as large as the device leaves nothing for a pass; the rows then fail by name, and the runner lives."""
    directory = write_tiny_model(tmp_path)
    runner = load_runner(ModelSettings(model=str(directory), dtype="float32", device="cuda"), 200, 8)
    free, _ = torch.cuda.mem_get_info()
    hog = torch.empty(free - (64 << 20), dtype=torch.uint8, device="cuda")
    driver = Driver(runner, 512)
    driver.generate(requests(GREEDY))
    del hog
    assert set(driver.errors.values()) <= {"oom"}
    assert Driver(runner, 512).generate(requests(GREEDY))["r0"]
