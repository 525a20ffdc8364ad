"""The `batchscope` command: what a person types.

It talks to a server over HTTP where one holds the data directory, else it reads the records. Knows no greenlet and no
scheduling. Exit codes: 0 ok, 1 failed, 2 wrong usage, 130 interrupted.
Invariant: Ctrl-C is caught while the command's own modules are still being imported, which takes most of a second.
"""

from __future__ import annotations

import sys

from app.cli.failures import INTERRUPTED

try:
    from app.cli.command import main
except KeyboardInterrupt:
    print("batchscope: interrupted", file=sys.stderr)
    raise SystemExit(INTERRUPTED) from None

__all__ = ["main"]
