"""What a server that a command starts would compute with: in words, and held against what the data directory knows.

Knows no process. Invariant: records of one kind of hardware are not gone on with on another unless somebody said so.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from app.cli.failures import USAGE, CommandError
from app.settings import ServerSettings
from app.store import lives, migrate
from app.store.queries import Queries
from scheduler.runners.cost_model import DEFAULT_HARDWARE


def add_starting(parser: argparse.ArgumentParser) -> None:
    """The server's own flags, for one that is started."""
    parser.add_argument("--runner", choices=("torch", "simulated", "null"), help="what a server that is started computes with")
    parser.add_argument("--hardware", metavar="NAME", help="cost model of its simulated runner: `batchscope serve --help`")


def refuse_starting(options: argparse.Namespace, why: str) -> None:
    """The flags are of a server that is started; raises CommandError where none is, since one would be left unheard."""
    if options.runner or options.hardware:
        raise CommandError(f"--runner and --hardware are of a server that is started for the run: {why}", USAGE)


def in_words(runner: str, hardware: str | None, model: str | None) -> str:
    """`the simulated runner, h100-llama-3.1-8b-tp1-bf16`, `the torch runner, SmolLM2-135M-Instruct`."""
    what = hardware if runner == "simulated" else model if runner == "torch" else None
    return f"the {runner} runner" + (f", {what}" if what else "")


def computes(settings: ServerSettings) -> str:
    """The same of a server that is not there yet."""
    return in_words(settings.runner, settings.hardware or DEFAULT_HARDWARE, settings.model_settings.model)


def check_like_before(options: argparse.Namespace, settings: ServerSettings) -> None:
    """Raises CommandError where nobody said what to compute with, and the last life computed with something else."""
    default = ServerSettings()
    said = options.runner or options.hardware
    if said or (settings.runner, settings.hardware) != (default.runner, default.hardware):
        return
    before = _last_life(settings)
    if before is None or before["runner"] == settings.runner:
        return
    words = in_words(before["runner"], before["hardware"], before["model"])
    again = f"--runner {before['runner']}" + (f" --hardware {before['hardware']}" if before["hardware"] else "")
    raise CommandError(
        f"the records of {settings.directory} were last made by {words}; a server started now would be {computes(settings)}. "
        f"Go on as before with `{again}`, or say `--runner {settings.runner}`",
        USAGE,
    )


def _last_life(settings: ServerSettings) -> Mapping[str, Any] | None:
    """None where there are no records yet, or of a schema that the server has to bring up to date first."""
    url, file = settings.records_url, settings.records_file
    absent = file is not None and not file.exists()
    if absent or migrate.current(url) != migrate.head():
        return None
    queries = Queries(url)
    try:
        found: Mapping[str, Any] | None = queries.ask(lives.newest)
    finally:
        queries.close()
    return found
