"""EngineClient: the web's end of the pair, and the engine process behind it. Knows messages, not what they are for.

Plain socket, thread and subprocess, so that a process patched by gevent gets their green forms.
Invariant: `on_message` is called from one reader, in order; `on_gone` exactly once, after the last message.
"""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from scheduler.engine.framing import Unframer, frame
from scheduler.engine.messages import Abort, Hello, Hold, Message, Patch, Reply, Shutdown, Submit
from scheduler.errors import EngineGone, ProtocolError

_READ = 1 << 18


class Replies:
    """Who waits for which answer."""

    def __init__(self) -> None:
        self._tokens = itertools.count(1)
        self._waiting: dict[int, tuple[threading.Event, list[Reply]]] = {}

    def ask(self, send: Callable[[int], None], timeout: float) -> Reply:
        """Send with a fresh token and wait; raises EngineGone when no answer comes in `timeout` seconds."""
        token, came, box = next(self._tokens), threading.Event(), []  # type: tuple[int, threading.Event, list[Reply]]
        self._waiting[token] = (came, box)
        try:
            send(token)
            if not came.wait(timeout) or not box:
                raise EngineGone(f"the engine did not answer within {timeout:g} s")
            return box[0]
        finally:
            del self._waiting[token]

    def take(self, reply: Reply) -> None:
        """Hand an answer to who waits for it; one that nobody waits for any more is let go."""
        if reply.token in self._waiting:
            came, box = self._waiting[reply.token]
            box.append(reply)
            came.set()

    def fail(self) -> None:
        """No more answers will come."""
        for came, _ in self._waiting.values():
            came.set()


class Commands(ABC):
    """What an engine is told and asked, whatever carries it: `_send` frames and sends one message, or raises EngineGone."""

    def __init__(self) -> None:
        self._replies = Replies()

    @abstractmethod
    def _send(self, message: Message) -> None:
        """Frame and send."""

    def submit(self, message: Submit) -> None:
        """Send one sequence; raises EngineGone."""
        self._send(message)

    def abort(self, ids: list[str], detail: str) -> None:
        """End sequences; raises EngineGone."""
        self._send(Abort(ids, detail))

    def patch(self, changes: dict[str, Any], expected: int | None = None, timeout: float = 5.0) -> Reply:
        """Change settings; the reply tells the settings in effect, or the error."""
        return self._replies.ask(lambda token: self._send(Patch(token, changes, expected)), timeout)

    def hold(self, what: str, timeout: float = 5.0) -> Reply:
        """ "pause", "step" or "resume"."""
        return self._replies.ask(lambda token: self._send(Hold(token, what)), timeout)


class EngineClient(Commands):
    """One engine process. A new life needs a new client."""

    def __init__(self, on_message: Callable[[Any], None], on_gone: Callable[[], None]) -> None:
        super().__init__()
        self._on_message = on_message
        self._on_gone = on_gone
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None

    @property
    def pid(self) -> int | None:
        """The engine's process id, once started."""
        return self._process.pid if self._process else None

    @property
    def alive(self) -> bool:
        """The process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self, hello: Hello) -> None:
        """Spawn the process and greet it."""
        ours, theirs = socket.socketpair()
        # Spinning OpenMP barriers starve the web process on few cores: 2.8 times slower steps beside one busy process.
        env = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}
        command = [sys.executable, "-m", "scheduler.engine.server", str(theirs.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=env, stdin=subprocess.DEVNULL)
        theirs.close()
        self._sock = ours
        self._send(hello)
        self._reader = threading.Thread(target=self._read, name="engine-reader", daemon=True)
        self._reader.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Ask the engine to end, and end it if it does not."""
        if self.alive:
            try:
                self._send(Shutdown())
                self._wait(timeout)
            except (EngineGone, subprocess.TimeoutExpired):
                self.kill()
        if self._reader is not None and self._reader is not threading.current_thread():
            self._reader.join(timeout)

    def kill(self) -> None:
        """End the process at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _wait(self, timeout: float) -> None:
        assert self._process is not None
        self._process.wait(timeout)

    def _send(self, message: Message) -> None:
        data = frame(message)
        if self._sock is None:
            raise EngineGone("the engine is not running")
        with self._lock:
            try:
                self._sock.sendall(data)
            except OSError as error:
                raise EngineGone(f"the engine is gone: {error}") from error

    def _read(self) -> None:
        assert self._sock is not None
        unframer = Unframer(to_engine=False)
        try:
            while data := self._sock.recv(_READ):
                self._dispatch(unframer.feed(data))
        except ConnectionError:
            pass  # an engine that ends with commands unread resets the pair: to us it is just gone
        except ProtocolError as error:
            print(f"engine pair: {error}", file=sys.stderr)
        finally:
            self.kill()
            self._sock.close()
            self._sock = None
            self._replies.fail()
            self._on_gone()

    def _dispatch(self, messages: list[Any]) -> None:
        for message in messages:
            if isinstance(message, Reply):
                self._replies.take(message)
            else:
                self._on_message(message)
