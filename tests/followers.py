"""Dashboards over a Wire: a Follower that keeps every step it saw, and a Crowd that only checks that frames join."""

from __future__ import annotations

import json
import select
import threading
import time
import urllib.error
from typing import Any

from dashboards import Gone, Wire

STEP_COLUMNS = (
    "seq", "step", "t", "ms", "prefill", "decode", "budget", "binding", "waiting", "running", "kv_used", "preempted",
)  # fmt: skip


class Follower(threading.Thread):
    """A page's manners in Python: follows /live through `url` and keeps all steps, reading old ones from `records`.

    resync=False: it keeps what it is given, and asks for nothing.
    """

    def __init__(self, url: str, records: Any, *, resync: bool = True) -> None:
        super().__init__(daemon=True)
        self.url, self.records, self.resync = url, records, resync
        self.boot: int | None = None
        self.last: int | None = None
        self.steps: dict[int, dict[str, Any]] = {}
        self.twice = self.holes = self.from_records = self.connections = self.frames = self.snapshots = 0
        self.gauges: dict[str, Any] = {}
        self.swallow = 0  # so many frames get lost on the way, acknowledged
        self.problem: BaseException | None = None
        self.stopping = False

    def run(self) -> None:
        try:
            while not self.stopping:
                try:
                    self._follow()
                except urllib.error.HTTPError:
                    raise
                except (Gone, OSError):
                    time.sleep(0.05)
        except BaseException as problem:  # shown by the test, which looks
            self.problem = problem

    def stop(self) -> None:
        self.stopping = True
        self.join(20)
        assert not self.is_alive()
        if self.problem is not None:
            raise self.problem

    def _follow(self) -> None:
        wire = Wire(self.url, timeout=12.0)
        asked = False
        try:
            self.connections += 1
            if self.resync and self.boot is not None:
                self._ask(wire)
                asked = True
            while not self.stopping:
                if not wire.readable(0.2):
                    continue
                name, data = wire.event()
                if name == "frame" and self.swallow > 0:
                    self.swallow -= 1
                elif name == "snapshot":
                    asked = False
                    self._snapshot(data)
                elif name == "frame" and not self._is_hole(data):
                    asked = False
                    self._frame(data)
                elif name == "frame":
                    self.holes += 1
                    if self.resync and not asked:
                        self._ask(wire)
                        asked = True
                    elif not self.resync and data["boot"] == self.boot:
                        self._frame(data)
        finally:
            wire.close()

    def _ask(self, wire: Wire) -> None:
        wire.say("42/live," + json.dumps(["resync", {"boot": self.boot, "last": self.last}]))

    def _is_hole(self, frame: dict[str, Any]) -> bool:
        return frame["boot"] != self.boot or self.last is None or frame["from"] > self.last

    def _snapshot(self, data: dict[str, Any]) -> None:
        self.snapshots += 1
        if data["boot"] != self.boot:
            self.steps.clear()
        elif self.resync and self.steps and data["steps"]["seq"]:
            self._read_records(data["boot"], max(self.steps) + 1, data["steps"]["seq"][0] - 1)
        self.boot = data["boot"]
        self._keep(data, data["seq"], overlap=True)

    def _frame(self, data: dict[str, Any]) -> None:
        self.frames += 1
        assert self.last is not None
        self._keep(data, data["to"], overlap=data["from"] < self.last)

    def _keep(self, data: dict[str, Any], to: int, overlap: bool) -> None:
        for row in rows(data["steps"]):
            self.twice += row["seq"] in self.steps and not overlap
            self.steps[row["seq"]] = row
        self.last, self.gauges = to, data["gauges"]

    def _read_records(self, boot: int, first: int, last: int) -> None:
        """What the ring no longer had."""
        if first > last:
            return
        for row in rows(self.records(f"/api/steps?boot={boot}&from_seq={first}&to_seq={last}")["steps"]):
            self.from_records += row["seq"] not in self.steps
            self.steps[row["seq"]] = row


def rows(columns: dict[str, Any]) -> list[dict[str, Any]]:
    """Columns as rows; the reasons that occur as a dict of those above 0."""
    found = []
    for index in range(len(columns["seq"])):
        row = {name: columns[name][index] for name in STEP_COLUMNS}
        row["by_reason"] = {name: column[index] for name, column in columns["by_reason"].items() if column[index]}
        found.append(row)
    return found


class Crowd(threading.Thread):
    """Well-behaved dashboards, all read by one thread; counts their frames, and checks that each continues the last."""

    def __init__(self, url: str, count: int) -> None:
        super().__init__(daemon=True)
        self.wires = [Wire(url) for _ in range(count)]
        self.frames = [0] * count
        self.boots: list[list[int]] = [[] for _ in range(count)]
        self.gauges: list[dict[str, Any]] = [{} for _ in range(count)]
        self.down_at: list[float | None] = [None] * count
        self._at = [-1] * count
        self._stopping = False
        self.problem: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            while not self._stopping:
                ready = select.select([wire.sock for wire in self.wires], [], [], 0.1)[0]
                for index, wire in enumerate(self.wires):
                    while wire.sock in ready and wire.readable():
                        self._take(index, *wire.event())
        except BaseException as problem:  # shown by stop()
            self.problem = problem

    def stop(self) -> None:
        self._stopping = True
        self.join(20)
        for wire in self.wires:
            wire.close()
        if self.problem is not None:
            raise self.problem

    def _take(self, index: int, name: str, data: Any) -> None:
        assert name in ("snapshot", "frame", "run"), (name, data)
        if name == "run":
            return
        if name == "snapshot":
            self._at[index] = data["seq"]
            self.boots[index].append(data["boot"])
        else:
            assert data["boot"] == self.boots[index][-1] and data["from"] == self._at[index]
            assert all(data["from"] < seq <= data["to"] for seq in data["steps"]["seq"])
            self._at[index] = data["to"]
            self.frames[index] += 1
        self.gauges[index] = data["gauges"]
        if data["gauges"]["engine"] == "down" and self.down_at[index] is None:
            self.down_at[index] = time.monotonic()
