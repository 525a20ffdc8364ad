"""`runs import`: whether a run is here already is told by codes, not by words; what is not taken in leaves no file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.cli import bundles
from app.cli.failures import CommandError
from app.settings import ServerSettings
from app.store.bundle_reading import Head
from app.store.errors import QueryError, StoreError

HEAD = Head("run_a", "run_a", False, 1, {}, {})


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    path = tmp_path / "simulations" / "run_a.db"
    path.parent.mkdir()
    path.write_bytes(b"")
    return path


def asked(monkeypatch: pytest.MonkeyPatch, unpacked: Path, error: Exception) -> bool:
    """Is it here, where the records answer with `error`?"""

    def answer(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(bundles, "_bundle", answer)
    return bundles._is_here(ServerSettings(data_dir=str(unpacked.parents[1])), HEAD, unpacked)


@pytest.mark.parametrize(
    "error", [CommandError("it went away", 1, "run_not_found"), QueryError("purged by retention on 2026-11-30", "run")]
)
def test_a_run_that_the_records_lack_is_not_here_whatever_the_words(
    monkeypatch: pytest.MonkeyPatch, unpacked: Path, error: Exception
) -> None:
    assert not asked(monkeypatch, unpacked, error)
    assert unpacked.exists(), "it is to be handed over"


@pytest.mark.parametrize(
    "error",
    [
        CommandError("there is no running server any more"),
        CommandError("no runs scope", 1, "insufficient_scope"),
        QueryError("no run has such a field", "text"),
        StoreError("run run_a is active: it can be exported once it has ended", "run"),
    ],
)
def test_another_failure_is_no_answer_and_leaves_no_file(
    monkeypatch: pytest.MonkeyPatch, unpacked: Path, error: Exception
) -> None:
    with pytest.raises(type(error)):
        asked(monkeypatch, unpacked, error)
    assert not unpacked.exists()
