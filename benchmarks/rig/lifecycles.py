"""Real lives of requests, as the engine tells them: the core with simulated hardware on a jumping clock, message by message.

Knows no database. Invariant: the events are those of EngineService, packed and unpacked as on the pair.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from app.store.accepted import AcceptedRow
from scheduler.core.events import Event, RequestFinished
from scheduler.core.request import SamplingParams
from scheduler.engine.build import light_runner
from scheduler.engine.clock import JumpClock
from scheduler.engine.messages import PROTOCOL, Events, Hello, StepDone, Submit, unpack_event
from scheduler.engine.service import EngineService
from scheduler.settings import ModelSettings

PROMPT = 64
OUTPUT = 24


@dataclass(frozen=True, slots=True)
class Told:
    """What comes at once: the rows of POSTs that just arrived, or the events of one message."""

    accepts: list[AcceptedRow]
    events: list[Event]


class Lives:
    """`count` requests through `slots` slots, a few always waiting, each of OUTPUT to 2 · OUTPUT tokens."""

    def __init__(self, count: int, slots: int, *, boot: int, run: str | None, prefix: str, wall: int, mono: int) -> None:
        self._count, self._slots, self._run, self._prefix = count, slots, run, prefix
        self._wall, self._mono = wall, mono
        self._told: list[Told] = []
        self._made = self._ended = 0
        model = ModelSettings(runner="simulated", model="simulated")
        scheduler = {"max_num_seqs": slots, "max_num_batched_tokens": 8192}
        self._service = EngineService(self._put, wall=lambda: wall, mono=lambda: mono)
        self._service.start(Hello(PROTOCOL, boot, scheduler, asdict(model)), model, light_runner(model))
        self._service.loop.clock = JumpClock(mono)

    def __iter__(self) -> Iterator[Told]:
        while self._ended < self._count:
            while self._made < self._count and self._made - self._ended < self._slots + 8:
                self._arrive()
            self._service.step()
            yield from self._told
            self._told.clear()

    def _arrive(self) -> None:
        n, now = self._made, self._service.loop.clock.now()
        self._made += 1
        params = SamplingParams(max_tokens=OUTPUT + n % OUTPUT, ignore_eos=True)
        prompt = array("I", [n & 0xFF, n >> 8 & 0xFF, n >> 16, *range(n % 97, n % 97 + PROMPT - 3)])
        key, wall = f"{self._prefix}{n:026d}", self._wall + now - self._mono
        row = AcceptedRow(
            key, now, wall, "/v1/completions", stream=True, model="simulated", run=self._run, client_request_id=f"r-{n}",
            tenant=f"t{n % 5}", prompt_tokens=PROMPT, max_tokens=params.max_tokens, timeout_ms=300_000.0, prompt_hash="0" * 64,
        )  # fmt: skip
        self._told.append(Told([row], []))
        self._service.handle(Submit(key, prompt.tobytes(), params, now, tenant=row.tenant, run=self._run))

    def _put(self, message: object) -> None:
        if isinstance(message, (Events, StepDone)):
            events = [unpack_event(row) for row in message.events]
            self._ended += sum(isinstance(event, RequestFinished) for event in events)
            self._told.append(Told([], events))
