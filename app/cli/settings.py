"""The server's settings as a command sees them: --data-dir, then the environment, then batchscope.toml."""

from __future__ import annotations

import argparse

from app.cli.server import server_environment
from app.settings import ServerSettings, load


def server_settings(options: argparse.Namespace) -> ServerSettings:
    """The settings that a server started here would have."""
    return load(server_arguments(options), server_environment())


def server_arguments(options: argparse.Namespace) -> list[str]:
    """The flags of this command that are the server's."""
    return ["--data-dir", options.data_dir] if options.data_dir else []
