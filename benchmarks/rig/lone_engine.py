"""The engine process alone: driven over the pair by a reader that decodes and does nothing else. No web, no records.

Invariant: it runs what the server's engine runs, from the same Hello; only who reads the pair differs.
"""

from __future__ import annotations

import threading
import time
from array import array
from dataclasses import asdict
from typing import Any

from scheduler.core.events import EVENT_TYPES, StepCompleted
from scheduler.core.request import SamplingParams
from scheduler.engine.client import EngineClient
from scheduler.engine.messages import PROTOCOL, Events, Failed, Hello, Ready, StepDone, Submit
from scheduler.settings import ModelSettings

START_S = 120.0
_STEP = EVENT_TYPES.index(StepCompleted)


class LoneEngine:
    """`steps`: (started_at, ended_at, decodes) of every step so far."""

    def __init__(self, model: ModelSettings, scheduler: dict[str, Any]) -> None:
        self.steps: list[tuple[int, int, int]] = []
        self.failure: str | None = None
        self._ready = threading.Event()
        self._serial = 0
        self._live: list[str] = []
        self._client = EngineClient(self._take, self._ready.set)
        self._client.start(Hello(PROTOCOL, 1, scheduler, asdict(model)))
        if not self._ready.wait(START_S) or not self._client.alive:
            raise RuntimeError(f"the engine did not start: {self.failure}")

    @property
    def pid(self) -> int:
        """The engine's process."""
        assert self._client.pid is not None
        return self._client.pid

    def submit(self, streams: int, prompt_tokens: int, max_tokens: int) -> None:
        """That many sequences, unlike each other."""
        for n in range(streams):
            self._serial += 1
            prompt = array("I", [n % 200 + 1, self._serial % 200 + 1, *range(1, prompt_tokens - 1)]).tobytes()
            params = SamplingParams(max_tokens=max_tokens, temperature=0.0, ignore_eos=True)
            self._live.append(f"lone_{self._serial}")
            self._client.submit(Submit(self._live[-1], prompt, params, time.monotonic_ns()))

    def abort(self) -> None:
        """End all of them."""
        self._client.abort(self._live, "operator")
        self._live = []

    def stop(self) -> None:
        """End the process."""
        self._client.stop()

    def _take(self, message: object) -> None:
        if isinstance(message, Ready):
            self._ready.set()
        elif isinstance(message, Failed):
            self.failure = message.message
        elif isinstance(message, (StepDone, Events)):
            for row in message.events:
                if row[0] == _STEP:
                    self.steps.append((row[5], row[6], len(row[13])))
