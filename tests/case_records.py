"""A server whose records hold what is hard to show: names that would run, formulas, a run without a generator.

`case_server(data)` is a running server with two runs in its records, `RUN` (simulated) and the one that its `seen` names.
"""

from __future__ import annotations

import json
import sqlite3
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from live_server import LiveServer, wait_until
from simulated_records import RUN, SECOND, Recorded

from scheduler.simulate import Ask

EVIL = "</script><img src=x onerror=alert(1)>"
FORMULA = '=HYPERLINK("x")'
TENANTS = (EVIL, "b", FORMULA)
SENT = 12


@dataclass(frozen=True, slots=True)
class CaseServer:
    """`seen`: the run that a load generator told of. `preempted`: the request of RUN that was preempted most."""

    live: LiveServer
    url: str
    seen: str
    preempted: str

    def ids(self, query: str) -> list[str]:
        """Of the requests that the list shows, at most 1,000, in its order."""
        return [row["id"] for row in self.live.get(f"/api/requests?limit=1000&{query}")["items"]]


@contextmanager
def case_server(data: Path) -> Iterator[CaseServer]:
    """See the module."""
    asks = [Ask(n * SECOND // 40, 60 + 10 * (n % 9), 20 + n % 13, tenant=TENANTS[n % 3], kind=EVIL) for n in range(50)]
    recorded = Recorded(data / "batchscope.db", asks, max_num_seqs=4, max_model_len=512, kv_cache_tokens=512)
    recorded.close()
    with closing(sqlite3.connect(recorded.path)) as connection, connection:
        connection.execute("UPDATE runs SET name = ?, scenario = ?", (EVIL, EVIL))
    with LiveServer(data, "--runner", "null") as server:
        seen = load_run(server)
        preempted = server.get(f"/api/requests?run={RUN}&sort=-preemptions&limit=1")["items"][0]["id"]
        yield CaseServer(server, server.url, seen, preempted)


def load_run(server: LiveServer) -> str:
    """A run of SENT requests that a generator told of; the first of them failed at the client."""
    run: str = server.post("/api/runs", {"external": True, "name": EVIL})["id"]
    for n in range(SENT):
        headers = {"X-Batchscope-Run": run, "X-Request-Id": f"c{n}"}
        server.post("/v1/completions", {"model": "null", "prompt": [1] * (3 + n), "max_tokens": 3, "tenant": EVIL}, headers)
    data = "".join(json.dumps(line(n)) + "\n" for n in range(SENT)).encode()
    asked = urllib.request.Request(
        f"{server.url}/api/runs/{run}/client_requests", data, {"Content-Type": "application/x-ndjson"}
    )
    urllib.request.urlopen(asked, timeout=30).close()
    wait_until(lambda: server.get(f"/api/requests?run={run}&state=finished&limit=1")["total"] == SENT, 20, "all rows")
    server.post(f"/api/runs/{run}/stop", {})
    return run


def line(n: int) -> dict[str, object]:
    """What the generator saw of its n-th request."""
    at = 10.0 * n
    given = {"id": f"c{n}", "n": n, "tenant": EVIL, "sent_ms": at, "due_ms": at, "end_ms": at + 9, "prompt_tokens": 3 + n}
    if n == 0:
        return given | {"status": "http_error", "http": 500, "error": EVIL}
    return given | {"status": "ok", "http": 200, "first_ms": at + 5, "last_ms": at + 9, "output_tokens": 3}
