"""Manners: what one dashboard may say on its websocket, and how often. Knows the words of /live, no socket, no state.

Judged before any library parses it, since a well-aimed packet (an acknowledgement numbered 0, an event named "connect",
an attachment announced and never sent) harms those libraries. Invariant: what passes is a join, a lawful resync, an
acknowledgement or a pong; no client passes more than 10 words, 15 acknowledgements and 2 pongs a second for long.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

import orjson

WORDS_A_SECOND, ACKS_A_SECOND, PONGS_A_SECOND = 10.0, 15.0, 2.0
BURST_S = 2.0
JOIN_S = 10.0
MOST = 1 << 53

Verdict = Literal["pass", "drop", "end"]

_JOIN = re.compile(r"40(?:/[\w-]{1,32}(?:,|\Z))?(\{.*\})?", re.ASCII | re.DOTALL)
_EVENT = re.compile(r"42/live,(?:\d{1,9})?(\[.*\])", re.ASCII | re.DOTALL)
_ACK = re.compile(r"43/live,[1-9]\d{0,8}(\[.{0,64}\])", re.ASCII | re.DOTALL)


class Allowance:
    """So many a second, and at first BURST_S times as many."""

    __slots__ = ("_rate", "_left", "_at")

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._left = rate * BURST_S
        self._at = now

    def take(self, now: float) -> bool:
        """One; False when it is one too many."""
        self._left = min(self._rate * BURST_S, self._left + (now - self._at) * self._rate) - 1
        self._at = now
        return self._left >= 0


class Manners:
    """Of one connection. `now` in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        began = now()
        self._end = began + JOIN_S
        self._words = Allowance(WORDS_A_SECOND, began)
        self._acks = Allowance(ACKS_A_SECOND, began)
        self._pongs = Allowance(PONGS_A_SECOND, began)
        self._asked = False
        self._joined = False

    @property
    def patience(self) -> float | None:
        """How long its next message may take: for ever, once it has joined."""
        return None if self._joined else max(0.001, self._end - self._now())

    def says(self, message: str) -> bool:
        """What the server tells it; True after a refusal, which ends the connection."""
        self._joined = self._joined or message.startswith("40/live,")
        return message.startswith("44")

    def hears(self, message: str | bytes) -> Verdict:
        """What to do with what it says."""
        if not isinstance(message, str):
            return "end"
        now = self._now()
        if message == "3":
            return "pass" if self._pongs.take(now) else "end"
        if message.startswith("43"):
            return "pass" if self._acks.take(now) and self._joined and _json(_ACK, message) is not None else "end"
        if not self._words.take(now):
            return "end"
        return self._event(message) if message.startswith("42") else self._join(message)

    def _join(self, message: str) -> Verdict:
        """Once a connection: each join is answered by a snapshot."""
        matched = _JOIN.fullmatch(message)
        if matched is None or self._asked or (matched[1] is not None and _json(_JOIN, message) is None):
            return "end"
        self._asked = True
        return "pass"

    def _event(self, message: str) -> Verdict:
        data = _json(_EVENT, message)
        if not self._joined or not isinstance(data, list) or not data or not isinstance(data[0], str):
            return "end"
        if data[0] != "resync":
            return "drop"  # a newer page's word, perhaps
        return "pass" if len(data) == 2 and lawful_resync(data[1]) else "end"


def lawful_resync(message: object) -> bool:
    """{boot, last}: both whole numbers, or both null (nothing was received yet)."""
    if not isinstance(message, dict):
        return False
    boot, last = message.get("boot"), message.get("last")
    if boot is None and last is None:
        return True
    return all(type(value) is int and 0 <= value < MOST for value in (boot, last))


def _json(pattern: re.Pattern[str], message: str) -> Any:
    """The packet's payload; None when it is none."""
    matched = pattern.fullmatch(message)
    if matched is None or matched[1] is None:
        return None
    try:
        return orjson.loads(matched[1])
    except orjson.JSONDecodeError:  # also for what is nested too deeply
        return None
