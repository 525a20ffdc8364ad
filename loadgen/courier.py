"""Hands records to the server in batches while the run lasts. Knows no schedule; the run's file stays the truth.

Invariant: a line leaves the queue only after the server took it, or after the server turned out to take none; batches
are idempotent there, so a batch whose answer was lost may go twice.
"""

from __future__ import annotations

import sys
import time
from collections import deque

from loadgen.target import Target, TargetError

BATCH = 500
MAX_QUEUE = 200_000
NOT_OFFERED = (404, 405, 501)
RETRY = (408, 409, 425, 429)


class Courier:
    """`put` lines, call `deliver` now and then; `delivered` counts what the server took."""

    def __init__(self, target: Target, run: str) -> None:
        self.delivered = 0
        self.stopped = False
        self._target = target
        self._run = run
        self._queue: deque[bytes] = deque()
        self._busy = False

    def put(self, line: bytes) -> None:
        if self.stopped:
            return
        if len(self._queue) >= MAX_QUEUE:
            self._stop("the server has not taken records for too long")
            return
        self._queue.append(line)

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def deliver(self) -> bool:
        """Send what waits, batch by batch; False if the server could not take it now."""
        if self._busy:
            return False
        self._busy = True
        try:
            while self._queue and not self.stopped:
                if not self._send():
                    return False
            return True
        finally:
            self._busy = False

    def finish(self, seconds: float) -> None:
        """Keep trying to empty the queue for so long."""
        until = time.monotonic() + seconds
        while self._queue and not self.stopped and time.monotonic() < until:
            if not self.deliver():
                time.sleep(0.1)
        if self._queue and not self.stopped:
            self._stop(f"{len(self._queue)} records could not be delivered")

    def _send(self) -> bool:
        batch = [self._queue[i] for i in range(min(BATCH, len(self._queue)))]
        try:
            status = self._target.deliver(self._run, b"".join(batch))
        except TargetError:
            return False
        if status // 100 == 2:
            for _ in batch:
                self._queue.popleft()
            self.delivered += len(batch)
            return True
        if status in RETRY or status >= 500 and status not in NOT_OFFERED:
            return False
        known = "the server keeps no records of load runs" if status in NOT_OFFERED else "the server refused a batch of records"
        self._stop(f"{known} ({status})")
        return False

    def _stop(self, why: str) -> None:
        """Said once: from here on the file alone has the records."""
        self.stopped = True
        self._queue.clear()
        print(f"loadgen: {why}; they stay in requests.jsonl only", file=sys.stderr, flush=True)
