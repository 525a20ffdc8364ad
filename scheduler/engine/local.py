"""LocalEngine: EngineClient's interface with the loop on a thread of this process, for tests of what is around it.

Messages still pass through the codec, so what works here works on the pair.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from typing import Any

from scheduler.engine import own_policies
from scheduler.engine.build import light_runner
from scheduler.engine.client import Commands
from scheduler.engine.framing import Unframer, frame
from scheduler.engine.messages import Hello, Message, Reply, Shutdown
from scheduler.engine.service import EngineService
from scheduler.errors import EngineGone
from scheduler.runners.base import Runner
from scheduler.settings import ModelSettings


class LocalEngine(Commands):
    """An engine life on a thread; `make_runner` defaults to the torch-free runners."""

    def __init__(
        self,
        on_message: Callable[[Any], None],
        on_gone: Callable[[], None],
        make_runner: Callable[[ModelSettings], Runner] = light_runner,
    ) -> None:
        super().__init__()
        self._on_message = on_message
        self._on_gone = on_gone
        self._make_runner = make_runner
        self._commands: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._to_web = Unframer(to_engine=False)
        self._thread: threading.Thread | None = None

    @property
    def pid(self) -> int:
        """This process: there is no other."""
        return os.getpid()

    @property
    def alive(self) -> bool:
        """The thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, hello: Hello) -> None:
        """Build the loop in the calling thread (errors are raised here), then step on another."""
        model = ModelSettings(**hello.model)
        service = EngineService(self._put)
        service.start(hello, model, self._make_runner(model), own_policies.load(hello.policies))
        self._thread = threading.Thread(target=self._serve, args=(service,), name="local-engine", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Ask the loop to end and wait for it."""
        if self.alive:
            self._send(Shutdown())
        if self._thread is not None:
            self._thread.join(timeout)

    def kill(self) -> None:
        """End without a word, as a crash would."""
        self._commands.put(None)
        if self._thread is not None:
            self._thread.join()

    def _send(self, message: Message) -> None:
        if not self.alive:
            raise EngineGone("the engine is not running")
        self._commands.put(frame(message))

    def _put(self, message: Message) -> None:
        for received in self._to_web.feed(frame(message)):
            if isinstance(received, Reply):
                self._replies.take(received)
            else:
                self._on_message(received)

    def _take(self, service: EngineService) -> list[bytes | None]:
        """The commands that have come; waits for one when there is nothing else to do."""
        taken: list[bytes | None] = []
        try:
            if service.idle:
                taken.append(self._commands.get(timeout=service.patience))
            while True:
                taken.append(self._commands.get_nowait())
        except queue.Empty:
            return taken

    def _serve(self, service: EngineService) -> None:
        try:
            self._live(service, Unframer(to_engine=True))
        finally:
            self._replies.fail()
            self._on_gone()

    def _live(self, service: EngineService, unframer: Unframer) -> None:
        while not service.stopping:
            taken = self._take(service)
            if None in taken:
                return
            for message in unframer.feed(b"".join(data for data in taken if data is not None)):
                service.handle(message)
            service.step()
