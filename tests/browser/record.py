"""A recording for the playback: `python tests/browser/record.py tutorial [serve's flags]` writes app/recorded/tutorial.json.gz.

A server of its own plays the scenario once; what is kept is every message that its websocket sent to one page (snapshot,
frame, run), unchanged, each with the ms of the engine's clock at which it came.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from dashboards import Wire  # noqa: E402
from live_server import ROOT, LiveServer  # noqa: E402

FOLDER = ROOT / "app" / "recorded"
FORMAT = 1
REST_MS = 1500.0  # of the server at rest, at the end
ENDED = ("finished", "failed", "stopped")


def listen(server: LiveServer, scenario: str) -> list[list[Any]]:
    """[ms, name, payload] of each message from the snapshot before the run to a moment after its end."""
    wire = Wire(server.url)
    kept = [[0.0, *wire.event()]]
    began, ended = time.monotonic(), None
    server.post("/api/runs", {"scenario": scenario})
    while ended is None or kept[-1][0] < ended + REST_MS:
        name, payload = wire.event()
        at = round((time.monotonic() - began) * 1000, 1)
        kept.append([at, name, payload])
        if name == "run" and payload["status"] in ENDED:
            ended = at
    wire.close()
    return kept


def on_the_engines_clock(messages: list[list[Any]]) -> list[list[Any]]:
    """The same messages, timed as the page's axes are; what came earlier than a second before the first request comes then."""
    first, shown = next(
        (at, data["gauges"]["now_ms"]) for at, name, data in messages if name == "frame" and data["changes"]["id"]
    )
    return [[round(max(at - first, -1000.0) + shown, 1), name, data] for at, name, data in messages]


def record(scenario: str, flags: list[str]) -> None:
    """Play `scenario` on a server with `flags`, and keep what its page was sent."""
    with tempfile.TemporaryDirectory() as data, LiveServer(Path(data), *flags, ready_s=300) as server:
        messages = on_the_engines_clock(listen(server, scenario))
    instant = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    whole = {"format": FORMAT, "scenario": scenario, "recorded": instant, "messages": messages}
    packed = gzip.compress(json.dumps(whole, separators=(",", ":")).encode(), mtime=0)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{scenario}.json.gz").write_bytes(packed)
    print(f"{len(messages)} messages over {messages[-1][0] / 1000:.1f} s, {len(packed):,} bytes")


if __name__ == "__main__":
    record(sys.argv[1], sys.argv[2:])
