"""Runners for tests: a tiny random model always, the default weights where they are installed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from scheduler.runners.torch_runner.runner import TorchRunner
from scheduler.settings import ModelSettings
from tests.scheduler.torch_runner.harness import load_runner, write_tiny_model
from tests.scheduler.torch_runner.model_cache import default_model

# Threads that meet after every operator wait for one another's core where other work runs beside: one is steadier.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models"))


@pytest.fixture
def tiny(tiny_directory: Path) -> TorchRunner:
    """A fresh runner: tests may break it."""
    return load_runner(ModelSettings(model=str(tiny_directory), dtype="float32", device="cpu"), blocks=200, block_size=8)


@pytest.fixture(scope="module")
def smollm_runner() -> TorchRunner:
    """The default weights in float32 on the CPU."""
    settings = default_model()
    return load_runner(ModelSettings(cache_dir=settings.cache_dir, dtype="float32", device="cpu"))


@pytest.fixture(autouse=True)
def same_random_numbers() -> None:
    torch.manual_seed(0)
