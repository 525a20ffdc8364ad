"""Every case of docs/dashboard_cases.md names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACES = {"B/": "tests/browser/", "E/": "tests/end_to_end/"}
CASES = {"1", "2", "4", "5", "6", "8", "9", "10", "11", "12", "14", "15", "17", "18", "20", "21", "22", "24", "all pages"}


def cases() -> dict[str, list[tuple[str, str]]]:
    """(file, test) by case."""
    lines = (ROOT / "docs" / "dashboard_cases.md").read_text("utf-8").splitlines()
    rows = [line.strip("|").split("|") for line in lines if line.startswith("|")][2:]
    return {row[0].strip(): re.findall(r"`([\w/.]+)::(\w+)`", row[2]) for row in rows}


def defined(file: str) -> set[str]:
    return {node.name for node in ast.parse((ROOT / file).read_text("utf-8")).body if isinstance(node, ast.FunctionDef)}


def test_every_case_is_held_by_tests_that_exist() -> None:
    found = cases()
    assert set(found) == CASES and all(found.values())
    files = {
        (re.sub(r"^[BE]/", lambda short: PLACES[short[0]], file), test) for tests in found.values() for file, test in tests
    }
    assert [(file, test) for file, test in sorted(files) if test not in defined(file)] == []
