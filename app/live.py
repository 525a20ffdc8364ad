"""Pusher: sends LiveState to the browsers over the Socket.IO namespace /live. Decides nothing about what is shown.

Each client has its own place in the event order. A frame leaves for a client only when the one before was acknowledged
and its send queue is short; whoever is slow is skipped and later gets one merged frame from where it stands: fewer,
newer frames, never a backlog. Invariant: the `from` of each frame is the `to` (or `seq`) that went to that client before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flask import request
from socketio import exceptions

from app.live_state import LiveState

NAMESPACE = "/live"
PERIOD_S = 0.1
HEARTBEAT_NS = 1_000_000_000
SNAPSHOT_GAP_NS = 1_000_000_000
PATIENCE_NS = 5_000_000_000
QUEUE_SKIP = 8
QUEUE_DROP = 64
MAX_DASHBOARDS = 50

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Client:
    """One browser. `last`: newest seq sent; -1 asks for a snapshot. Instants in ns; `waiting`: an unacknowledged send."""

    boot: int = -1
    last: int = -1
    revision: int = -1
    server_version: int = -1
    waiting: bool = False
    sent_at: int = 0
    snapshot_at: int | None = None


class Pusher:
    """The one sender. `socketio` is Flask-SocketIO's object; `spawn` starts the loop, `sleep` takes seconds, `now` gives ns."""

    def __init__(
        self,
        socketio: Any,
        state: LiveState,
        *,
        spawn: Callable[[Callable[[], None]], object],
        sleep: Callable[[float], object],
        now: Callable[[], int],
    ) -> None:
        self._socketio = socketio
        self._state = state
        self._spawn = spawn
        self._sleep = sleep
        self._now = now
        self._clients: dict[str, Client] = {}
        self._running = False

    def start(self) -> None:
        """Listen on the namespace and begin to send."""
        self._socketio.on_event("connect", self._connect, namespace=NAMESPACE)
        self._socketio.on_event("disconnect", self._disconnect, namespace=NAMESPACE)
        self._socketio.on_event("resync", self._resync, namespace=NAMESPACE)
        self._running = True
        self._spawn(self._loop)

    def stop(self) -> None:
        """The loop ends after its current round."""
        self._running = False

    def run_changed(self, run: Mapping[str, Any] | None) -> None:
        """A load run began, went on or ended: told at once, beside the frames."""
        self._state.run_changed(run)
        for sid, client in self._clients.items():
            if client.last >= 0 and self._queued(sid) <= QUEUE_SKIP:
                self._socketio.emit("run", self._state.run, namespace=NAMESPACE, to=sid)

    # ---- what clients say

    def _connect(self, auth: object = None) -> None:
        try:
            self.join(request.sid)  # type: ignore[attr-defined]  # Flask-SocketIO adds it
        except ConnectionRefusedError as refused:  # only Socket.IO's own carries the reason to the page
            raise exceptions.ConnectionRefusedError(str(refused)) from refused

    def _disconnect(self, reason: object = None) -> None:
        self.leave(request.sid)  # type: ignore[attr-defined]

    def _resync(self, message: object) -> None:
        self.resync(request.sid, message)  # type: ignore[attr-defined]

    def join(self, sid: str) -> None:
        """A browser came; its snapshot goes out with the next round."""
        if len(self._clients) >= MAX_DASHBOARDS:
            raise ConnectionRefusedError(f"at most {MAX_DASHBOARDS} dashboards at once are served: close another one")
        self._clients[sid] = Client()
        self._count()

    def leave(self, sid: str) -> None:
        """A browser went."""
        self._clients.pop(sid, None)
        self._count()

    def resync(self, sid: str, message: object) -> None:
        """A browser saw a hole after `last`: the next round sends it one frame from there, or a snapshot."""
        client = self._clients.get(sid)
        if client is None:
            return
        boot, last = (message.get("boot"), message.get("last")) if isinstance(message, dict) else (None, None)
        client.boot, client.last = -1, -1
        if type(boot) is int and type(last) is int and boot == self._state.boot and 0 <= last <= self._state.seq:
            client.boot, client.last = boot, last
        client.revision = -1
        client.waiting = False

    # ---- what is sent

    def _loop(self) -> None:
        while self._running:
            try:
                self.round()
            except Exception:  # a fault in one round must not blind every page until the next restart
                log.exception("a round of the live push failed")
            self._sleep(PERIOD_S)

    def round(self) -> None:
        """Send each client what it lacks, if it can take it. Clients at the same place share one frame."""
        frames: dict[int, dict[str, Any] | None] = {}
        for sid, client in list(self._clients.items()):
            queued = self._queued(sid)
            if queued > QUEUE_DROP:
                self._drop(sid)
            elif queued <= QUEUE_SKIP and self._ready(client) and self._lacks(client):
                self._send(sid, client, frames, queued)

    def _ready(self, client: Client) -> bool:
        """Did it acknowledge? An answer that never comes holds it up for a while only: the next frame shows it the hole."""
        return not client.waiting or self._now() - client.sent_at >= PATIENCE_NS

    def _lacks(self, client: Client) -> bool:
        """Is there news, or has it been silent for a second (a heartbeat, also while the engine is down)?"""
        return client.revision != self._state.revision or self._now() - client.sent_at >= HEARTBEAT_NS

    def _send(self, sid: str, client: Client, frames: dict[int, dict[str, Any] | None], queued: int) -> None:
        frame = None
        if client.boot == self._state.boot and client.last >= 0:
            if client.last not in frames:
                frames[client.last] = self._state.frame(client.last)
            frame = frames[client.last]
        if frame is None:
            if not queued:  # it is large: one at a time
                self._send_snapshot(sid, client)
            return
        if client.server_version != self._state.fold.server_version:
            frame = frame | {"server": self._state.server}
        self._emit(sid, client, "frame", frame)

    def _send_snapshot(self, sid: str, client: Client) -> None:
        now = self._now()
        if client.snapshot_at is not None and now - client.snapshot_at < SNAPSHOT_GAP_NS:
            return
        client.snapshot_at = now
        self._emit(sid, client, "snapshot", self._state.snapshot())

    def _emit(self, sid: str, client: Client, name: str, message: dict[str, Any]) -> None:
        client.boot, client.last = self._state.boot, self._state.seq
        client.revision, client.server_version = self._state.revision, self._state.fold.server_version
        client.sent_at = self._now()
        client.waiting = True

        def acknowledged(*_: object) -> None:
            client.waiting = False

        try:
            self._socketio.emit(name, message, namespace=NAMESPACE, to=sid, callback=acknowledged)
        except Exception:  # what is wrong with one client must not keep the others waiting
            log.exception("a dashboard could not be sent to: dropped")
            self._drop(sid)

    # ---- the engine.io side

    def _queued(self, sid: str) -> int:
        """Packets that wait for this client's socket; more than bearable when the socket is closed."""
        socket = self._socket(sid)
        if socket is None:
            return 0
        return QUEUE_DROP + 1 if socket.closed else int(socket.queue.qsize())

    def _socket(self, sid: str) -> Any:
        manager = self._socketio.server.manager
        if not manager.is_connected(sid, NAMESPACE):
            return None
        return self._socketio.server.eio.sockets.get(manager.eio_sid_from_sid(sid, NAMESPACE))

    def _drop(self, sid: str) -> None:
        """Cut a client that does not read or is gone; closing without waiting, since its queue will never drain."""
        self.leave(sid)
        socket = self._socket(sid)
        if socket is not None and not socket.closed:
            log.warning("a dashboard is dropped with %d messages unsent", socket.queue.qsize())
            socket.close(wait=False, abort=True)

    def _count(self) -> None:
        self._state.dashboards = len(self._clients)
