"""LivePacket: Socket.IO's packet for /live: JSON by orjson, no binary parts, and what goes to many is encoded once.

Knows no socket and no state. Invariant: a payload object is never changed after it was first sent (the pusher makes a
new one each time), so its encoding may be kept as long as the object is.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import orjson
from socketio.packet import Packet

KEPT = 4


class SharedJson:
    """The json module's two functions. Remembers the newest payloads by identity: clients at one place share a frame."""

    def __init__(self) -> None:
        self._kept: deque[tuple[object, orjson.Fragment]] = deque(maxlen=KEPT)

    def dumps(self, data: Any, **_: object) -> str:
        """JSON text. `data` is [event, payload] for an event."""
        if type(data) is list and len(data) == 2 and type(data[1]) is dict:
            data = [data[0], self._encoded(data[1])]
        return orjson.dumps(data, option=orjson.OPT_NON_STR_KEYS).decode()

    def loads(self, text: str, **_: object) -> Any:
        """Strict JSON; ValueError for anything else, also for what is nested too deeply."""
        return orjson.loads(text)

    def _encoded(self, payload: object) -> orjson.Fragment:
        for known, encoded in self._kept:
            if known is payload:
                return encoded
        encoded = orjson.Fragment(orjson.dumps(payload, option=orjson.OPT_NON_STR_KEYS))
        self._kept.append((payload, encoded))
        return encoded


class LivePacket(Packet):  # type: ignore[misc]
    """Looking for binary parts in every frame for every client would cost more than encoding it."""

    uses_binary_events = False
    json = SharedJson()
