"""Dashboards for tests: a websocket client of raw frames, so that it can be well-behaved, silent, blind or rude.

Knows the framing and the handshake; what a page does with what it hears is in followers.py.
"""

from __future__ import annotations

import base64
import json
import os
import re
import select
import socket
import struct
import time
import urllib.parse
from typing import Any

EVENT = re.compile(r"42/live,(\d*)(\[.*)", re.DOTALL)


class Gone(Exception):
    """The server closed the connection; `reason` is the close frame's text or code, if one came."""


class Wire:
    """One websocket connection to /live. `receive_buffer`: small for who will not read."""

    def __init__(self, url: str, *, join: bool = True, receive_buffer: int = 0, timeout: float = 10.0) -> None:
        place = urllib.parse.urlsplit(url)
        self.sock = socket.socket()
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(timeout)
        self._data = b""
        self._shake_hands(url, place)
        if join:
            self.say("40/live,")

    def _shake_hands(self, url: str, place: urllib.parse.SplitResult) -> None:
        key = base64.b64encode(os.urandom(16)).decode()
        request = (
            f"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: {place.netloc}\r\nOrigin: {url}\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
        )
        try:
            self.sock.connect((place.hostname, place.port))
            self.sock.sendall(request.encode())
            while b"\r\n\r\n" not in self._data:
                self._more()
            head, _, self._data = self._data.partition(b"\r\n\r\n")
            if b" 101 " not in head.split(b"\r\n")[0]:
                raise Gone(head.decode())
        except BaseException:
            self.sock.close()
            raise

    def say(self, text: str | bytes, opcode: int = 1) -> None:
        """One masked frame."""
        data = text.encode() if isinstance(text, str) else text
        size = len(data)
        head = bytes([0x80 | opcode])
        head += bytes([0x80 | size]) if size < 126 else bytes([0xFE]) + struct.pack("!H", size)
        self.sock.sendall(head + b"\0\0\0\0" + data)

    def hear(self) -> str:
        """The next text; raises Gone at the end, TimeoutError when nothing comes."""
        while True:
            first, second = self._take(2)
            size = second & 127
            if size == 126:
                (size,) = struct.unpack("!H", self._take(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", self._take(8))
            data = self._take(size)
            assert first & 0x80 and not first & 0x70 and not second & 0x80, f"a torn frame: {first:#x} {second:#x}"
            if first & 15 == 8:
                raise Gone(f"{struct.unpack('!H', data[:2])[0]} {data[2:].decode()}" if data else "closed")
            if first & 15 == 1:
                return data.decode()

    def event(self) -> tuple[str, Any]:
        """The next event (name, payload), acknowledged; pings are answered on the way. A refusal is ("refused", why)."""
        while True:
            text = self.hear()
            if text == "2":
                self.say("3")
            elif text.startswith("44/live,"):
                return "refused", json.loads(text[8:])
            elif matched := EVENT.fullmatch(text):
                if matched[1]:
                    self.say(f"43/live,{matched[1]}[]")
                name, payload = json.loads(matched[2])
                return name, payload

    def readable(self, seconds: float = 0.0) -> bool:
        """Is there something to hear?"""
        return bool(self._data) or bool(select.select([self.sock], [], [], seconds)[0])

    def ended(self, seconds: float) -> bool:
        """Read until the server closes, at most so long."""
        end = time.monotonic() + seconds
        self.sock.settimeout(0.2)
        while time.monotonic() < end:
            try:
                if not self.sock.recv(1 << 16):
                    return True
            except TimeoutError:
                continue
            except OSError:
                return True
        return False

    def close(self) -> None:
        self.sock.close()

    def _take(self, count: int) -> bytes:
        while len(self._data) < count:
            self._more()
        found, self._data = self._data[:count], self._data[count:]
        return found

    def _more(self) -> None:
        piece = self.sock.recv(1 << 16)
        if not piece:
            raise Gone("closed without a word")
        self._data += piece
