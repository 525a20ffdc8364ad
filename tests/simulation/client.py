"""A simulated client: one POST, what it read, what it was told, when it hangs up. Knows no server.

Invariant: `told` is set once: by an answer's end, a refusal, a reset, or its own leaving.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simulation.plan import ClientPlan
from simulation.world import Bell, World

from app.api.errors import Problem
from scheduler.core.events import RequestFinished


class LineFrames:
    """An answer's bytes, a line a frame: `t0 text`, `f0 reason`, `done`, `error code`."""

    def opening(self) -> bytes:
        return b""

    def token(self, index: int, text: str) -> bytes:
        return f"t{index} {text}\n".encode()

    def final(self, index: int, finished: RequestFinished) -> bytes:
        return f"f{index} {finished.reason.value}\n".encode()

    def closing(self, finished: Sequence[RequestFinished]) -> bytes:
        return b"done\n"

    def failure(self, problem: Problem) -> bytes:
        return f"error {problem.code}\n".encode()


class Client:
    """See the module. `told`: finished, failed, refused, reset or left; `code` says more."""

    def __init__(self, world: World, plan: ClientPlan) -> None:
        self.world = world
        self.plan = plan
        self.posted = False
        self.told: str | None = None
        self.code: str | None = None
        self.status: int | None = None
        self.texts = [""] * len(plan.prompts)
        self.unsafe = False  # it was told while the records could not be written
        self.failing: Callable[[], bool] = lambda: False
        self.stream: Stream | None = None

    @property
    def over(self) -> bool:
        return self.told is not None

    def opened(self) -> None:
        """Status line and headers."""
        self.status = 200
        self._maybe_leave("opened")

    def receive(self, data: bytes) -> None:
        """Bytes of a streamed answer."""
        self.world.note(self.plan.id, data)
        for line in data.decode().splitlines():
            word, _, rest = line.partition(" ")
            if word[0] == "t":
                self.texts[int(word[1:])] += rest
                self._maybe_leave("midway")
            elif word == "done":
                self.tell("finished")
            elif word == "error":
                self.tell("failed", rest)

    def receive_whole(self, texts: list[str]) -> None:
        """A whole answer."""
        self.status, self.texts = 200, texts
        self.tell("finished")

    def tell(self, what: str, code: str | None = None) -> None:
        """The end, as far as the client knows."""
        if self.told is None:
            self.world.note(self.plan.id, what, code)
            self.told, self.code, self.unsafe = what, code, self.failing()

    def sent(self) -> None:
        """The request has left."""
        self._maybe_leave("sent")

    def _maybe_leave(self, stage: str) -> None:
        if self.plan.leaves == stage and self.told is None:
            self.world.call(self.plan.patience, self._leave)

    def _leave(self) -> None:
        if self.told is None:
            self.tell("left")
            if self.stream is not None:
                self.stream.hang_up("slow_client" if self.plan.slow else "client_gone")


class Stream:
    """What app.serving.token_streams.TokenStream offers, over a client instead of a socket."""

    def __init__(self, world: World, client: Client) -> None:
        self.lost: str | None = None
        self.ended = False
        self._client = client
        self._open = False
        self._buffer = bytearray()
        self._gone: str | None = None
        self._bell = Bell(world)
        client.stream = self

    def push(self, data: bytes) -> None:
        if self._gone is not None and self._open:
            self.lost = self.lost or self._gone
        if self.lost is not None:
            return
        if self._open:
            self._client.receive(data)
        else:
            self._buffer += data

    def end(self) -> None:
        self.ended = True
        self._bell.set()

    def wake(self) -> None:
        self._bell.set()

    def close(self) -> None:
        """The socket is no longer watched."""

    def hang_up(self, why: str) -> None:
        """The client left; the owner sees it when it looks."""
        self._gone = why
        self._bell.set()

    def wait(self, done, timeout: float | None = None) -> bool:  # type: ignore[no-untyped-def]
        while not done():
            self.lost = self.lost or self._gone
            if self.lost is not None:
                return False
            self._bell.wait()
            self._bell.clear()
        return True

    def deliver(self) -> None:
        """The body: headers, what has accumulated, then all that comes until the end or the client's leaving."""
        self._client.opened()
        self._open = True
        data, self._buffer = bytes(self._buffer), bytearray()
        if self._gone is None:
            self._client.receive(data)
        self.wait(lambda: self.ended)
