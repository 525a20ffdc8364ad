"""The default model's text side, loaded once."""

import pytest

from scheduler.settings import ModelSettings
from scheduler.text.bundle import Text, load
from tests.scheduler.torch_runner.model_cache import default_model


@pytest.fixture(scope="session")
def smollm_settings() -> ModelSettings:
    return default_model()


@pytest.fixture(scope="session")
def smollm(smollm_settings: ModelSettings) -> Text:
    return load(smollm_settings)
