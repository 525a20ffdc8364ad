"""The engine process: `python -m scheduler.engine.server FD`. Owns one end of the pair and nothing else.

Life: read Hello, load the model (saying how far it is), say Ready, then step and obey until the pair closes.
Invariant: when the other side is gone, so is this process; it never outlives the web process, not even in a long step.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections import deque
from typing import Any

from scheduler.engine import own_policies
from scheduler.engine.build import light_runner
from scheduler.engine.messages import Failed, Hello, Loading
from scheduler.engine.pair import Pair
from scheduler.engine.service import EngineService
from scheduler.errors import BatchscopeError, EngineGone, ProtocolError
from scheduler.runners.base import Runner
from scheduler.settings import ModelSettings

EXIT_GONE = 0
EXIT_FAILED = 1
_NOTHING_RAN_S = 0.05


def make_runner(model: ModelSettings, pair: Pair) -> Runner:
    """The runner that the settings name; torch is imported here and nowhere earlier."""
    if model.runner != "torch":
        return light_runner(model)
    from scheduler.runners.torch_runner.runner import TorchRunner

    return TorchRunner(model, lambda text, done, total: pair.put(Loading(text, done, total)))


def first_message(pair: Pair) -> tuple[Hello, deque[Any]]:
    """Hello, and whatever came behind it."""
    messages: deque[Any] = deque()
    while not messages:
        messages.extend(pair.read(None))
    hello = messages.popleft()
    if not isinstance(hello, Hello):
        raise ProtocolError(f"expected Hello, got {type(hello).__name__}")
    return hello, messages


def serve(pair: Pair, service: EngineService, early: deque[Any]) -> None:
    """Obey and step until told to stop; raises EngineGone when the other side is."""
    for message in early:
        service.handle(message)
    collected = False
    ran = True
    while not service.stopping:
        blocked = service.idle or pair.full
        if service.idle and not collected:
            gc.collect()
            collected = True
        for message in pair.read(service.patience if blocked else 0 if ran else _NOTHING_RAN_S):
            service.handle(message)
        if pair.full:
            continue
        collected = collected and service.idle
        ran = service.step() or service.idle
    pair.drain(1.0)


def run(pair: Pair) -> int:
    """One life; the exit code."""
    hello, early = first_message(pair)
    model = ModelSettings(**hello.model)
    service = EngineService(pair.put)
    own = own_policies.load(hello.policies)  # before a model is loaded: what is wrong with them is told at once
    service.start(hello, model, make_runner(model, pair), own)
    gc.collect()
    gc.freeze()
    try:
        serve(pair, service, early)
    except EngineGone:
        raise
    except Exception as error:
        service.explain(error)
        raise
    return EXIT_GONE


def end_with(descriptor: int) -> None:
    """Wait for the other side to hang up, and end the process there and then: a step may take longer than we may live."""
    watch = select.poll()
    watch.register(descriptor, getattr(select, "POLLRDHUP", 0))  # POLLHUP is always told
    watch.poll()
    os._exit(EXIT_GONE)


def _told(error: Exception, text: str) -> str:
    return ", ".join([text, *getattr(error, "__notes__", ())])


def main() -> int:
    """Run on the inherited descriptor; what goes wrong is told on the pair and on stderr."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the web process's to handle: it drains, then ends us by the pair
        signal.signal(number, signal.SIG_IGN)
    descriptor = int(sys.argv[1])
    pair = Pair(socket.socket(fileno=descriptor))
    threading.Thread(target=end_with, args=(descriptor,), name="pair-watch", daemon=True).start()
    try:
        return run(pair)
    except EngineGone:
        return EXIT_GONE
    except BatchscopeError as error:
        pair.put(Failed(_told(error, error.message), error.param))
    except Exception as error:
        traceback.print_exc()
        pair.put(Failed(_told(error, f"{type(error).__name__}: {error}")))
    pair.drain(1.0)
    return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
