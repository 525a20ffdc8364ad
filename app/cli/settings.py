"""The server's settings as a command sees them: --data-dir, then the environment, then batchscope.toml."""

from __future__ import annotations

import argparse

from app.cli.server import server_environment
from app.settings import ServerSettings, load

FLAGS = ("runner", "hardware")  # of a server that a command starts; not every command has them


def server_settings(options: argparse.Namespace) -> ServerSettings:
    """The settings that a server started here would have."""
    return load(server_arguments(options), server_environment())


def server_arguments(options: argparse.Namespace) -> list[str]:
    """The flags of this command that are the server's."""
    given = {name: getattr(options, name, None) for name in ("data_dir", *FLAGS)}
    return [word for name, value in given.items() if value for word in ("--" + name.replace("_", "-"), value)]
