"""One open dashboard: the websocket of /live, joined and acknowledged as the page does, on a thread. Draws nothing.

Invariant: every message that asks to be acknowledged is, so that the server goes on sending at its full rate.
"""

from __future__ import annotations

import re
import threading
from urllib.parse import urlsplit

import simple_websocket

JOIN_S = 30.0
_ASKS = re.compile(r"42/live,(\d+)\[")


class Client(simple_websocket.Client):
    """The library's client leaves the port out of its Host header, which a strict server does not take for its own, and does
    not read what came in one segment with the upgrade before more comes."""

    def handshake(self) -> None:
        """Ask for the upgrade, and read the frames that came with its answer."""
        self.host = f"{self.host}:{self.port}"
        super().handshake()
        self.connected = self._handle_events()


class Dashboard:
    """`start` returns when it has joined. Raises RuntimeError where it has not, or is gone when its frames are asked for."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._frames = 0
        self._joined = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dashboard", daemon=True)

    def start(self) -> None:
        """Connect, on a daemon thread."""
        self._thread.start()
        if not self._joined.wait(JOIN_S):
            raise RuntimeError(f"the dashboard has not joined {self._url} within {JOIN_S:.0f} s")

    @property
    def frames(self) -> int:
        """How many came that ask to be acknowledged."""
        if not self._thread.is_alive():
            raise RuntimeError("the server hung up on the dashboard: what is measured is without one")
        return self._frames

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
        elif text.startswith("40/live,"):
            self._joined.set()
        elif (asks := _ASKS.match(text)) is not None:
            self._frames += 1
            socket.send(f"43/live,{asks[1]}[]")
