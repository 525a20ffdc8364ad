"""One open dashboard: the websocket of /live, joined and acknowledged as the page does, on a thread. Draws nothing.

Invariant: every message that asks to be acknowledged is, so that the server goes on sending at its full rate.
"""

from __future__ import annotations

import re
import threading
from urllib.parse import urlsplit

import simple_websocket

_ASKS = re.compile(r"42/live,(\d+)\[")


class Client(simple_websocket.Client):
    """The library's client leaves the port out of its Host header, which a strict server does not take for its own."""

    def handshake(self) -> None:
        """Ask for the upgrade."""
        self.host = f"{self.host}:{self.port}"
        super().handshake()


class Dashboard:
    """Joins on `start`; `frames` counts what came."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.frames = 0

    def start(self) -> None:
        """Connect, on a daemon thread."""
        threading.Thread(target=self._run, name="dashboard", daemon=True).start()

    def _run(self) -> None:
        place = f"ws://{urlsplit(self._url).netloc}/socket.io/?EIO=4&transport=websocket"
        socket = Client.connect(place, headers={"Origin": self._url}, receive_bytes=1 << 16)
        try:
            while True:
                self._take(socket, str(socket.receive()))
        except simple_websocket.ConnectionClosed:
            return

    def _take(self, socket: Client, text: str) -> None:
        if text.startswith("0"):
            socket.send("40/live,")
        elif text == "2":
            socket.send("3")
        elif (asks := _ASKS.match(text)) is not None:
            self.frames += 1
            socket.send(f"43/live,{asks[1]}[]")
