"""`python -m app.cli.ready SINCE PARENT [server flags]`: how long it took until its parent, a server, was ready, and worked.

Started by `make run` beside the server. SINCE: when it all began, seconds since the epoch; PARENT: the server's pid. Says
when the server is ready and when the first bar moves on its live page. Invariant: it ends with its parent, also with one that
was gone before it looked, when it has spoken, or after PATIENCE_S.
"""

from __future__ import annotations

import json
import os
import sys
import time

from app.cli.failures import OK, CommandError
from app.cli.server import Server, client_key, server_environment
from app.settings import load
from scheduler.errors import SettingsError

POLL_S = 0.2
PATIENCE_S = 900.0


def main(argv: list[str]) -> int:
    """Wait and say."""
    since, parent = float(argv[0]), int(argv[1])
    try:
        told = load(argv[2:], server_environment()).directory / "server.json"
    except SettingsError:
        return OK  # the server says so itself, and ends
    while os.getppid() == parent:
        url = _url(told.read_text("utf-8") if told.exists() else "", parent)
        server = Server(url, client_key()) if url else None
        status = server.status("/readyz") if server else None
        if server and status == 200:
            print(f"Ready {time.time() - since:.1f} s after `make run` began.", flush=True)
            _first_bar(server, since, parent)
        if status in (200, 401):
            return OK
        time.sleep(POLL_S)
    return OK


def _first_bar(server: Server, since: float, parent: int) -> None:
    """Say when the first step has run; a key that may not look, or a server that ends, is no reason to say anything."""
    end = time.monotonic() + PATIENCE_S
    while os.getppid() == parent and time.monotonic() < end:
        try:
            moved = server.get("/api/live")["gauges"]["step_ms_p50"] is not None
        except CommandError:
            return
        if moved:
            print(f"The first bar moved {time.time() - since:.1f} s after `make run` began.", flush=True)
            return
        time.sleep(2 * POLL_S)


def _url(text: str, pid: int) -> str | None:
    """The url in server.json, if it was written by the process `pid`."""
    try:
        told = json.loads(text or "{}")
    except ValueError:
        return None  # being written just now
    return told.get("url") if told.get("pid") == pid else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
