"""The `batchscope` command: what a person types.

It talks to a server over HTTP where one holds the data directory, else it reads the records. Knows no greenlet and no
scheduling. Exit codes: 0 ok, 1 failed, 2 wrong usage.
"""

from __future__ import annotations

from app.cli.command import main

__all__ = ["main"]
