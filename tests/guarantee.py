"""Guarantee: what a policy promises, as a question that can be put to every policy of the catalog. Runs nothing by itself.

The lists are `GUARANTEES` in tests/scheduler/guarantees/*_guarantees.py; test_guarantee_table.py there puts every question
to every policy. Invariant: `find_violation` is deterministic, and a guarantee that no named policy breaks is none.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parent / "scheduler" / "guarantees"


@dataclass(frozen=True)
class Guarantee:
    """name: as "bounded overtaking". says: one sentence, with the bound.

    promised_by: names of the catalog; violated_by: those that must violate it, so that the check is seen to fail.
    find_violation: name of a policy → None, or what went wrong, in words; it takes less than a second.
    """

    name: str
    says: str
    promised_by: tuple[str, ...]
    violated_by: tuple[str, ...]
    find_violation: Callable[[str], str | None]


def all_guarantees() -> list[Guarantee]:
    """Those of every file of the folder, in the order of the files' names."""
    return [each for path in sorted(FOLDER.glob("*_guarantees.py")) for each in _loaded(path).GUARANTEES]


def _loaded(path: Path) -> ModuleType:
    """The folder is no package: its name would be that of the product's."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
