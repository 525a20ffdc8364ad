"""What a streamed answer amounts to: fold its events into instants, counts and one of the eight statuses. No I/O.

A token event carries non-empty content, text, reasoning or tool calls: a role event, a usage event and a ping do not.
Invariant: a metric that the stream does not define stays None.
"""

from __future__ import annotations

from typing import Any

import orjson

from loadgen.results import EMPTY_STREAM, OK, STREAM_ERROR
from loadgen.sse import SseEvent

MAX_ERROR = 300


class Answer:
    """The state of one stream. Instants are perf_counter seconds, stamped by the caller before any parsing."""

    __slots__ = ("first", "last", "gaps", "events", "done", "finish", "error", "usage", "first_tokens", "server_id", "seen")

    def __init__(self) -> None:
        self.first: float | None = None
        self.last: float | None = None
        self.gaps: list[float] = []
        self.events = 0
        self.done = False
        self.finish: str | None = None
        self.error: str | None = None
        self.usage: dict[str, Any] = {}
        self.first_tokens: int | None = None
        self.server_id: str | None = None
        self.seen = False

    def take(self, event: SseEvent, now: float) -> bool:
        """Fold one event that arrived at `now`; True if it carried a token."""
        self.seen = True
        if event.data.strip() == b"[DONE]":
            self.done = True
            return False
        try:
            message = orjson.loads(event.data)
        except orjson.JSONDecodeError:
            message = None
        if not isinstance(message, dict):
            self._fail(f"not a JSON object in the stream: {event.data[:80]!r}")
            return False
        if message.get("error") or event.event == "error":
            self._fail(error_text(message))
            return False
        usage = message.get("usage")
        if isinstance(usage, dict):
            self.usage = usage
        if self.server_id is None and isinstance(message.get("id"), str):
            self.server_id = message["id"]
        return self._choices(message.get("choices"), now)

    def _choices(self, choices: Any, now: float) -> bool:
        token = False
        for choice in choices if isinstance(choices, list) else []:
            if not isinstance(choice, dict):
                continue
            self.finish = choice.get("finish_reason") or self.finish
            token = token or _has_token(choice)
        if token:
            self._token(now)
        return token

    def _token(self, now: float) -> None:
        self.events += 1
        if self.first is None or self.last is None:
            self.first = now
            so_far = _count(self.usage.get("completion_tokens"))
            self.first_tokens = so_far if so_far is not None and so_far > 1 else None
        else:
            self.gaps.append(now - self.last)
        self.last = now

    def _fail(self, text: str) -> None:
        self.error = self.error or text[:MAX_ERROR]

    @property
    def output_tokens(self) -> int | None:
        """The server's count, else the number of token events (see `estimated`)."""
        counted = _count(self.usage.get("completion_tokens"))
        return self.events if counted is None else counted

    @property
    def prompt_tokens(self) -> int | None:
        return _count(self.usage.get("prompt_tokens"))

    @property
    def estimated(self) -> bool:
        return _count(self.usage.get("completion_tokens")) is None

    def verdict(self, broken: str | None) -> tuple[str, str | None]:
        """(status, error) of a stream that has ended; `broken`: how the transport failed, if it did."""
        if self.error:
            return STREAM_ERROR, self.error
        if broken and not self.done:
            return STREAM_ERROR, broken
        if not self.seen:
            return EMPTY_STREAM, "the stream ended without any event"
        if not self.done:
            return STREAM_ERROR, "the stream ended without [DONE]"
        if self.finish is None:
            return (STREAM_ERROR if self.events else EMPTY_STREAM), "the stream ended without a finish_reason"
        if not self.events and not self.usage.get("completion_tokens"):
            return EMPTY_STREAM, "the stream held no token"
        return OK, None


def error_text(message: Any) -> str:
    """The text of an OpenAI error object, or whatever stands in its place."""
    error = message.get("error", message) if isinstance(message, dict) else message
    if isinstance(error, dict):
        return str(error.get("message") or error)
    return str(error)


def _has_token(choice: dict[str, Any]) -> bool:
    if choice.get("text"):
        return True
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return False
    return bool(delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning") or delta.get("tool_calls"))


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
