"""A soak: real processes, the simulated runner, random deaths, freezes, hang-ups, time-outs and changes; then the journal of
the clients against the database.

SOAK_REQUESTS, SOAK_SEED and SOAK_JOURNAL (a file that keeps the journal) by environment; `make soak` sends 100,000.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from queue import Empty, SimpleQueue
from random import Random
from urllib.parse import urlsplit

from live_server import wait_until
from soak.faults import Stage, at_rest
from soak.journal import Call, Conversation, Entry, draw
from soak.reckoning import reckon

REQUESTS = int(os.environ.get("SOAK_REQUESTS", "2000"))
SEED = int(os.environ.get("SOAK_SEED", "1"))
CLIENTS = 24
WEB_KILLS = max(4, REQUESTS // 5000)
MOST_S = 60 + REQUESTS / 5  # stops by itself: far beyond what it takes
SERVER = (
    "--runner", "simulated", "--hardware", "h100-llama-3.1-8b-tp1-bf16", "--hang-s", "3", "--set", "max_num_seqs=8",
    "--set", "kv_cache_tokens=512", "--set", "max_num_batched_tokens=64", "--set", "max_num_queued_reqs=200",
)  # fmt: skip


class Clients:
    """Threads that send the calls of a queue, one at a time each, to whatever server is up."""

    def __init__(self, stage: Stage, calls: Iterator[Call]) -> None:
        self.journal: list[Entry] = []
        self._stage = stage
        self._calls: SimpleQueue[Call] = SimpleQueue()
        for call in calls:
            self._calls.put(call)
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(CLIENTS)]
        self._ends_at = time.monotonic() + MOST_S

    @property
    def progress(self) -> float:
        return len(self.journal) / REQUESTS

    def run(self) -> None:
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join(max(0.0, self._ends_at + 120 - time.monotonic()))

    def _work(self) -> None:
        while time.monotonic() < self._ends_at:
            try:
                call = self._calls.get_nowait()
            except Empty:
                return
            server = wait_until(lambda: self._stage.server, 120, "a server to talk to")
            address = urlsplit(server.url)
            began = time.monotonic()
            entry = Conversation(call, (address.hostname, address.port), "Llama-3.1-8B").run()
            entry.began, entry.ended = began, time.monotonic()
            self.journal.append(entry)
            if entry.told in ("unreachable", "refused"):
                time.sleep(0.2)  # as a polite client waits before the next try


def test_a_soak_loses_nothing_and_ends_nothing_twice(tmp_path: Path) -> None:
    chance = Random(SEED)
    stage = Stage(tmp_path / "data", SERVER, Random(f"faults {SEED}"))
    stage.begin()
    clients = Clients(stage, (draw(chance, n) for n in range(REQUESTS)))
    nemesis = threading.Thread(target=stage.run, args=((0.1, 0.8), WEB_KILLS, lambda: clients.progress), daemon=True)
    nemesis.start()
    try:
        clients.run()
        stage.done.set()
        nemesis.join(120)
        assert stage.server is not None and not nemesis.is_alive()
        gauges = at_rest(stage.server)
        log = stage.server.text_of_log()
        assert stage.server.stop() == 0
    finally:
        stage.done.set()
        if stage.server is not None:
            stage.server.stop()
    _keep(clients.journal)
    told = Counter(entry.told for entry in clients.journal)
    print(
        f"soak {SEED}: {len(clients.journal)} requests {dict(told)}, faults {stage.count}, {gauges['blocks_free']} blocks free"
    )
    broken = reckon(tmp_path / "data" / "batchscope.db", clients.journal, stage.kills)
    assert not broken, f"SOAK_SEED={SEED}: {len(broken)} broken promises:\n" + "\n".join(broken[:40])
    assert len(clients.journal) == REQUESTS, "it did not get through in time"
    assert "Traceback" not in log, log[-3000:]
    assert told["finished"] > REQUESTS / 4 and stage.count.get("kill web") and stage.count.get("kill engine")


def _keep(journal: list[Entry]) -> None:
    if path := os.environ.get("SOAK_JOURNAL"):
        Path(path).write_text("".join(json.dumps(asdict(entry)) + "\n" for entry in journal))
