"""What a life of the engine is tied to: the client that it speaks through, who hears of it, and what is known of it.

Shapes, and what a Status makes of what the engine says; engine_life.py says what happens when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from scheduler.engine.messages import Events, Failed, Hello, Ready, Reply, StepDone, Submit


class Client(Protocol):
    """What scheduler.engine.client.EngineClient offers."""

    @property
    def pid(self) -> int | None: ...
    def start(self, hello: Hello) -> None: ...
    def submit(self, message: Submit) -> None: ...
    def abort(self, ids: list[str], detail: str) -> None: ...
    def patch(self, changes: dict[str, Any], expected: int | None = None, timeout: float = 5.0) -> Reply: ...
    def hold(self, what: str, timeout: float = 5.0) -> Reply: ...
    def stop(self, timeout: float = 5.0) -> None: ...
    def kill(self) -> None: ...


MakeClient = Callable[[Callable[[Any], None], Callable[[], None]], Client]


@dataclass(frozen=True, slots=True)
class Listeners:
    """What a life reports. `on_ready` runs before anything is submitted to it; `work` counts what it should be busy with.

    `on_gone(detail)`: how it ended, engine_crash or step_hang; True when what killed it is known and shut out.
    """

    on_events: Callable[[Events | StepDone], None]
    on_status: Callable[[str, str], None]
    on_ready: Callable[[Ready], None]
    on_gone: Callable[[str], object]
    resubmit: Callable[[], Iterable[Submit]]
    work: Callable[[], int]


@dataclass(slots=True)
class Status:
    """What is known of the present life. `state`: loading, up, down or failed."""

    state: str = "loading"
    text: str = "starting"
    boot: int = 0
    version: int = 1
    paused: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    capacity: dict[str, Any] = field(default_factory=dict)
    failure: Failed | None = None
    policies: list[dict[str, Any]] = field(default_factory=list)  # the user's own, as Ready told

    @property
    def own_policy(self) -> dict[str, Any] | None:
        """The policy in effect as Ready told it, if it is one of the user's own."""
        name = self.settings.get("policy")
        return next((row for row in self.policies if row["name"] == name), None)

    def next(self, boot: int, state: str, text: str) -> Status:
        """Of the life after this one: what this one said of itself holds until the next one speaks."""
        return Status(state, text, boot, self.version, settings=self.settings, capacity=self.capacity, policies=self.policies)

    def ready(self, message: Ready) -> None:
        """It serves, and says with what."""
        self.settings, self.version, self.capacity = dict(message.settings), message.version, dict(message.capacity)
        self.policies = list(message.policies)

    def answered(self, reply: Reply) -> None:
        """What is in effect after a change or a hold."""
        self.settings, self.version, self.paused = dict(reply.settings), reply.version, reply.paused
