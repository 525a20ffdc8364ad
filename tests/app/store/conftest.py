"""Fixtures of the records' tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from records import Records


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    """A real SQLite file with a started writer."""
    made = Records(tmp_path / "records.sqlite3")
    yield made
    made.close()
