"""A run in a file of its own, given to the records: by the server that holds the data directory, or directly where none does.

Knows no table. Invariant: the file is gone only once the records have it all.
"""

from __future__ import annotations

from pathlib import Path

from app.cli.holding import held
from app.cli.server import IN_TURNS_S, named_or_holding
from app.cli.terminal import say
from app.settings import ServerSettings
from app.store import migrate
from app.store.adopt import adopt_here, forget


def hand_over(settings: ServerSettings, url: str | None, path: Path, run_id: str) -> None:
    """Into the records. Should that fail, the file stays where it is, and this says so."""
    try:
        server = named_or_holding(url, settings.directory)
        if server is not None:
            server.post("/api/runs/adopt", {"run": run_id}, IN_TURNS_S)
            return
        with held(settings.directory):
            migrate.upgrade(settings.records_url)
            adopt_here(settings.records_url, path, run_id)
        forget(path)
    except BaseException:
        say(f"the records could not take the run over; it is whole in {path}")
        raise
