"""The simulated pair: both ends of the engine's socketpair, and the engine process behind it, running the real engine loop.

Frames are cut at random places and delayed; an engine may die between any two pieces, with or without what it had not sent
yet; a message of a life that is over may come again, late. Knows frames and processes, no request.
Invariant: what arrives in one direction arrives in order and at most once, but for those late copies.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from simulation.world import MS, Bell, Process, World

from scheduler.engine import server
from scheduler.engine.clock import PacedClock
from scheduler.engine.framing import Unframer, frame
from scheduler.engine.messages import (
    Abort,
    Failed,
    Hello,
    Hold,
    Loading,
    Message,
    Patch,
    Ready,
    Reply,
    Shutdown,
    Submit,
)
from scheduler.engine.service import EngineService
from scheduler.errors import BatchscopeError, EngineGone
from scheduler.runners.base import Runner
from scheduler.settings import ModelSettings


@dataclass(frozen=True)
class Weather:
    """How bad the pair is. Times in ns, chances of one."""

    latency: int = MS // 5
    cut: float = 0.2
    late_copies: float = 0.0
    outbox: int = 1 << 20
    load: int = 50 * MS
    fails_to_start: float = 0.0


class Wire:
    """One direction."""

    def __init__(self, world: World, weather: Weather, to: Process, deliver: Callable[[bytes | None], None]) -> None:
        self._world, self._weather, self._to, self._deliver = world, weather, to, deliver
        self._pieces: deque[bytes | None] = deque()
        self._last = 0
        self.waiting = 0

    def send(self, data: bytes) -> None:
        chance = self._world.random
        while data:
            cut = chance.randint(1, len(data)) if chance.random() < self._weather.cut else len(data)
            self._put(data[:cut])
            data = data[cut:]

    def end(self, lose: bool) -> None:
        """The sender is gone: the receiver reads what was sent, then the end. `lose`: a part of it never left."""
        while lose and self._pieces and self._world.random.random() < 0.7:
            self._pieces.pop()
        self._put(None)

    def _put(self, piece: bytes | None) -> None:
        self._pieces.append(piece)
        self.waiting += len(piece or b"")
        self._last = max(self._last, self._world.now() + self._world.random.randrange(self._weather.latency))
        self._world.call(self._last - self._world.now(), self._arrive, self._to)

    def _arrive(self) -> None:
        if self._pieces:
            piece = self._pieces.popleft()
            self.waiting -= len(piece or b"")
            self._deliver(piece)


class SimulatedPair:
    """The engine's end: what scheduler.engine.pair.Pair offers."""

    def __init__(self, world: World, outbox: int) -> None:
        self.out: Wire
        self._world = world
        self._limit = outbox
        self._unframer = Unframer(to_engine=True)
        self._inbox = bytearray()
        self._closed = False
        self._bell = Bell(world)

    @property
    def full(self) -> bool:
        return self.out.waiting > self._limit

    def put(self, message: Message) -> None:
        if isinstance(message, Ready):
            message = msgspec.structs.replace(message, pid=1)  # the true one differs from run to run
        data = frame(message)
        self._world.note("engine", data)
        self.out.send(data)

    def read(self, timeout: float | None) -> list[Any]:
        self._bell.clear()
        if not self._inbox and not self._closed and timeout != 0:
            self._bell.wait(MS / 1e9 if self.full else timeout)
        data, self._inbox = bytes(self._inbox), bytearray()
        if data:
            return self._unframer.feed(data)
        if self._closed:
            raise EngineGone("the other side closed the pair")
        return []

    def drain(self, seconds: float) -> None:
        """The wire delivers in its own time."""

    def take(self, piece: bytes | None) -> None:
        """The wire brings something."""
        self._inbox += piece or b""
        self._closed = self._closed or piece is None
        self._bell.set()


class SimulatedClient:
    """The web's end, and the engine process: what scheduler.engine.client.EngineClient offers."""

    pid = 1

    def __init__(
        self,
        world: World,
        weather: Weather,
        web: Process,
        make_runner: Callable[[], Runner],
        on_message: Callable[[Any], None],
        on_gone: Callable[[], None],
    ) -> None:
        self._world, self._weather, self._web, self._make_runner = world, weather, web, make_runner
        self._on_message, self._on_gone = on_message, on_gone
        self._unframer = Unframer(to_engine=False)
        self._inbox: deque[bytes | None] = deque()
        self._bell = Bell(world)
        self._tokens = itertools.count(1)
        self._asked: dict[int, tuple[Bell, list[Reply]]] = {}
        self._stale: list[Any] = []
        self._open = True
        self.process = world.process("engine")
        self.service: EngineService | None = None
        self._pair = SimulatedPair(world, weather.outbox)
        self._commands = Wire(world, weather, self.process, self._pair.take)
        self._pair.out = Wire(world, weather, web, self._arrived)

    def start(self, hello: Hello) -> None:
        self._world.spawn(self._live, self.process)
        self._send(hello)
        self._world.spawn(self._read, self._web)

    def submit(self, message: Submit) -> None:
        self._send(message)

    def abort(self, ids: list[str], detail: str) -> None:
        self._send(Abort(ids, detail))

    def patch(self, changes: dict[str, Any], expected: int | None = None, timeout: float = 5.0) -> Reply:
        return self._ask(lambda token: Patch(token, changes, expected), timeout)

    def hold(self, what: str, timeout: float = 5.0) -> Reply:
        return self._ask(lambda token: Hold(token, what), timeout)

    def stop(self, timeout: float = 5.0) -> None:
        if self.process.alive:
            self._send(Shutdown())

    def kill(self) -> None:
        if self.process.alive:
            self._world.kill(self.process)
            self._pair.out.end(lose=True)

    def web_died(self) -> None:
        """Nobody holds our end any more."""
        self._commands.end(lose=True)

    # ---- the engine process

    def _live(self) -> None:
        pair, world, chance = self._pair, self._world, self._world.random
        try:
            hello, early = server.first_message(pair)  # type: ignore[arg-type]
            pair.put(Loading("reading weights", 1, 2))
            world.pause(1 + chance.randrange(self._weather.load))
            if chance.random() < self._weather.fails_to_start:
                raise BatchscopeError("no memory for the weights", "device")
            service = _Checked(pair.put, wall=world.wall, mono=world.now)
            service.start(hello, ModelSettings(**hello.model), self._make_runner())
            service.loop.clock = PacedClock(world.now, world.sleep)
            self.service = service
            server.serve(pair, service, early)  # type: ignore[arg-type]
        except EngineGone:
            pass
        except BatchscopeError as error:
            pair.put(Failed(error.message, error.param))
        self.process.alive = False
        pair.out.end(lose=False)

    # ---- the web's end

    def _send(self, message: Message) -> None:
        if not self._open or (not self.process.alive and self._world.random.random() < 0.5):
            raise EngineGone("the engine is gone")
        self._world.note("web", frame(message))
        self._commands.send(frame(message))

    def _ask(self, make: Callable[[int], Message], timeout: float) -> Reply:
        token = next(self._tokens)
        bell, box = self._asked[token] = (Bell(self._world), [])
        try:
            self._send(make(token))
            if not bell.wait(timeout) or not box:
                raise EngineGone(f"the engine did not answer within {timeout:g} s")
            return box[0]
        finally:
            del self._asked[token]

    def _arrived(self, piece: bytes | None) -> None:
        self._inbox.append(piece)
        self._bell.set()

    def _read(self) -> None:
        while True:
            while not self._inbox:
                self._bell.clear()
                self._bell.wait()
            piece = self._inbox.popleft()
            if piece is None:
                break
            for message in self._unframer.feed(piece):
                self._dispatch(message)
        self.kill()
        self._open = False
        for bell, _ in self._asked.values():
            bell.set()
        self._on_gone()
        for message in self._stale:
            self._world.pause(self._world.random.randrange(200 * MS))
            self._on_message(message)

    def _dispatch(self, message: Any) -> None:
        if isinstance(message, Reply):
            if message.token in self._asked:
                bell, box = self._asked[message.token]
                box.append(message)
                bell.set()
            return
        self._on_message(message)
        if self._world.random.random() < self._weather.late_copies:
            self._stale = [*self._stale[-2:], message]


class _Checked(EngineService):
    """Asserts the core's invariants after every command and step."""

    def step(self) -> bool:
        ran = super().step()
        self.loop.scheduler.check()
        return ran

    def handle(self, message: Any) -> None:
        super().handle(message)
        self.loop.scheduler.check()
