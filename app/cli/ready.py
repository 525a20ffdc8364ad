"""`python -m app.cli.ready SINCE [server flags]`: waits until its parent process, a server, is ready; says how long it took.

Started by `make run` beside the server. SINCE: when it all began, seconds since the epoch. Knows no route but /readyz.
Invariant: it ends with its parent, or when it has spoken.
"""

from __future__ import annotations

import json
import os
import sys
import time

from app.cli.failures import OK
from app.cli.server import Server, client_key, server_environment
from app.settings import load
from scheduler.errors import SettingsError

POLL_S = 0.2


def main(argv: list[str]) -> int:
    """Wait and say."""
    since, parent = float(argv[0]), os.getppid()
    try:
        told = load(argv[1:], server_environment()).directory / "server.json"
    except SettingsError:
        return OK  # the server says so itself, and ends
    while os.getppid() == parent:
        url = _url(told.read_text("utf-8") if told.exists() else "", parent)
        status = Server(url, client_key()).status("/readyz") if url else None
        if status == 200:
            print(f"Ready {time.time() - since:.1f} s after `make run` began.", flush=True)
        if status in (200, 401):
            return OK
        time.sleep(POLL_S)
    return OK


def _url(text: str, pid: int) -> str | None:
    """The url in server.json, if it was written by the process `pid`."""
    try:
        told = json.loads(text or "{}")
    except ValueError:
        return None  # being written just now
    return told.get("url") if told.get("pid") == pid else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
