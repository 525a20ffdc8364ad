"""A client of the inference API on a raw socket, read by a thread of its own: it can leave at any byte and sees every one.

And what the records must be once all is over. Knows the public face only, and the tables of contract.md.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sqlite3
import struct
import threading
import urllib.request
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from live_server import LiveServer, wait_until

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close sends RST


class Call:
    """One POST under way. `streamed` asks for SSE; other fields go into the body."""

    def __init__(self, server: LiveServer, name: str, *, streamed: bool = True, reading: bool = True, **fields: Any) -> None:
        self.name = name
        self.data = b""
        self.reset = False
        self.ended = threading.Event()
        body = {"model": model_of(server.url), "prompt": f"prompt of {name}", "max_tokens": 5, "ignore_eos": True, "seed": 7}
        data = json.dumps(body | {"stream": streamed} | fields).encode()
        host, port = server.url.removeprefix("http://").split(":")
        self.sock = socket.create_connection((host, int(port)), timeout=120)
        head = (
            f"POST /v1/completions HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\nX-Request-Id: {name}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        self.sock.sendall(head.encode() + data)
        if reading:
            threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while more := self.sock.recv(1 << 16):
                self.data += more
        except ConnectionError:
            self.reset = True
        except OSError:
            pass  # we have hung up ourselves
        finally:
            self.sock.close()
            self.ended.set()

    def until(self, question: Callable[[bytes], Any], seconds: float = 60.0) -> Call:
        """Wait until what came answers `question`."""
        wait_until(lambda: question(self.data), seconds, f"{self.name}: {self.data[-200:]!r}")
        return self

    def over(self, seconds: float = 90.0) -> Call:
        """Wait until the connection has ended."""
        assert self.ended.wait(seconds), (self.name, self.data[-300:])
        return self

    def hang_up(self, *, reset: bool = False) -> None:
        """Leave."""
        with contextlib.suppress(OSError):
            if reset:
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self.sock.shutdown(socket.SHUT_RDWR)  # wakes the reading thread, which a close alone does not
        self.sock.close()

    @property
    def status(self) -> int:
        """Of the status line; 0 before it came."""
        return int(self.data[9:12] or b"0")

    def header(self, name: str) -> str | None:
        """A header's value."""
        for line in self.data.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n"):
            if line.lower().startswith(name.lower() + ":"):
                return line.partition(":")[2].strip()
        return None

    @property
    def json(self) -> Any:
        """The body of an answer that is no stream."""
        return json.loads(self.data.partition(b"\r\n\r\n")[2])

    @property
    def events(self) -> list[Any]:
        """The SSE events, decoded; the last one may be "[DONE]"."""
        lines = [line[6:].strip() for line in self.data.split(b"\n") if line.startswith(b"data: ")]
        return [line.decode() if line == b"[DONE]" else json.loads(line) for line in lines]

    @property
    def text(self) -> str:
        """The text of choice 0."""
        if b"text/event-stream" not in self.data.partition(b"\r\n\r\n")[0]:
            return str(self.json["choices"][0]["text"])
        return "".join(each["choices"][0]["text"] for each in self.events if each != "[DONE]" and each.get("choices"))

    @property
    def error(self) -> str | None:
        """The code of the error that was told, in the body or in the stream."""
        if self.status >= 400:
            return str(self.json["error"]["code"])
        return next((each["error"]["code"] for each in self.events if isinstance(each, dict) and "error" in each), None)


@lru_cache
def model_of(url: str) -> str:
    """The model that a server serves."""
    with urllib.request.urlopen(url + "/v1/models", timeout=30) as response:
        return str(json.load(response)["data"][0]["id"])


def gauges(server: LiveServer) -> dict[str, Any]:
    """The live page's gauges now."""
    found: dict[str, Any] = server.get("/api/live")["gauges"]
    return found


def rows(server: LiveServer) -> dict[str, dict[str, Any]]:
    """The records' rows by the client's name for them."""
    return {row["client_request_id"]: row for row in server.get("/api/requests?limit=1000")["items"]}


def row_once(server: LiveServer, name: str, question: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """The row of `name` once it is there and answers `question`: the engine may be at a request before its row is durable."""
    return dict(wait_until(lambda: (row := rows(server).get(name)) and question(row) and row, what=f"the row of {name}"))


def has_ended(row: dict[str, Any]) -> bool:
    """The records say that it is over."""
    return bool(row["state"] == "finished")


def at_rest(server: LiveServer, seconds: float = 60.0) -> None:
    """Wait until nothing is in flight and nothing is open; then all blocks are free."""

    def resting() -> bool:
        now = gauges(server)
        return bool(now["engine"] == "up" and now["waiting"] == now["running"] == now["preempted"] == 0)

    wait_until(resting, seconds, "the server to come to rest")
    wait_until(lambda: not ledger(server.data_dir).open, seconds, "every row to end")
    assert gauges(server)["blocks_free"] == gauges(server)["blocks_total"]


class Ledger:
    """What the database itself says."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def ask(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Rows, read-only."""
        with contextlib.closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, timeout=10)) as connection:
            return connection.execute(statement, values).fetchall()

    @property
    def open(self) -> int:
        """Rows that have not ended."""
        return int(self.ask("SELECT count(*) FROM requests WHERE state <> 'finished'")[0][0])

    @property
    def damage(self) -> list[str]:
        """What the database itself finds wrong."""
        return [said for (said,) in self.ask("PRAGMA integrity_check") if said != "ok"]

    def check(self) -> None:
        """Each sequence of each row ends exactly once, nothing belongs to no row, no step is missing, the file is sound."""
        assert self.damage == []
        assert self.open == 0
        assert self.ask("SELECT id FROM requests WHERE finish IS NULL") == []
        ends = dict(self.ask("SELECT request_id, count(*) FROM request_events WHERE terminal GROUP BY request_id"))
        assert ends == dict(self.ask("SELECT id, sequences FROM requests"))
        assert self.ask("SELECT id FROM request_events LEFT JOIN requests ON id = request_id WHERE id IS NULL") == []
        gaps = "SELECT boot, count(*), max(step) - min(step) + 1 FROM steps GROUP BY boot"
        assert [row for row in self.ask(gaps) if row[1] != row[2]] == []


def ledger(data_dir: Path) -> Ledger:
    """The records of a data directory."""
    return Ledger(data_dir / "batchscope.db")
