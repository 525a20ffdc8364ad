"""A stage for the pages: they, the pusher and a scripted engine in one process, with just enough of the API to draw them.

Run as `python tests/browser/stage_server.py [--rest]`; prints its port. Stands in for the server in tests of the pages
alone; what is tested end to end runs against the real server.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flask import Flask, Response, request
from flask_socketio import SocketIO
from werkzeug.serving import make_server

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from browser.live_script import MS, ScriptedEngine  # noqa: E402

from app.live import Pusher  # noqa: E402
from app.live_state import LiveState  # noqa: E402
from app.pages import pages  # noqa: E402

PROMPTS = (60, 90, 150, 420, 700, 100)


class Stage:
    """A scripted engine that runs in real time, and what is asked of it."""

    def __init__(self) -> None:
        self.engine = ScriptedEngine(start=time.monotonic_ns(), blocks=230)
        self.state = LiveState(time.monotonic_ns, version="stage")
        self.lock = threading.Lock()
        self.load_until = 0.0
        self.count = 0
        self.state.apply(self.engine.begin(time.time_ns()))
        self.state.describe(device="cpu", dtype="float32", simulated=True, hardware="h100-llama-3.1-8b-tp1-bf16")
        self.state.engine_status("up")
        self.pusher: Pusher | None = None

    def submit(self, **sizes: int) -> str:
        with self.lock:
            self.engine.now = max(self.engine.now, time.monotonic_ns())
            self.count += 1
            name = f"req_{self.count:026d}"
            self.state.apply(self.engine.submit(name, tenant="ab"[self.count % 2], **sizes))
            return name

    def loop(self) -> None:
        due = 0.0
        while True:
            now = time.monotonic()
            if now < self.load_until and now >= due:
                due = max(due, now - 0.2) + (0.035 if int(now) % 16 < 9 else 0.12)
                self.submit(prompt=PROMPTS[self.count % 6], output=30 + self.count * 7 % 140)
            with self.lock:
                busy = self.engine.waiting or self.engine.running or self.engine.preempted
                if busy:
                    self.engine.now = max(self.engine.now, time.monotonic_ns() - 5 * MS)
                    events = self.engine.step()
                    self.state.step_cost(21_000 + self.engine.steps % 7 * 900)
                    for event in events:
                        self.state.apply(event)
            time.sleep(max(0.0, (self.engine.now - time.monotonic_ns()) / 1e9) if busy else 0.005)

    def start(self, seconds: float) -> dict[str, Any]:
        self.load_until = time.monotonic() + seconds
        run = {
            "id": "run_1",
            "scenario": "first_look",
            "name": "first_look",
            "status": "running",
            "started": "",
            "elapsed_s": 0.0,
        }
        run |= {"duration_s": seconds, "sent": 0, "ok": 0, "failed": 0, "refused": 0, "in_flight": 0, "verdict": None}
        threading.Thread(target=self._progress, args=(run,), daemon=True).start()
        return run

    def _progress(self, run: dict[str, Any]) -> None:
        began = time.monotonic()
        assert self.pusher is not None
        while time.monotonic() < self.load_until:
            self.pusher.run_changed(run | {"elapsed_s": time.monotonic() - began, "sent": self.count})
            time.sleep(1)
        self.pusher.run_changed(run | {"status": "finished", "elapsed_s": time.monotonic() - began, "sent": self.count})

    def answer(self) -> Iterator[bytes]:
        for word in ("Paris", " is", " the", " capital", " of", " France", "."):
            time.sleep(0.05)
            yield b"data: " + json.dumps({"choices": [{"delta": {"content": word}, "index": 0}]}).encode() + b"\n\n"
        yield b"data: [DONE]\n\n"


def push(stage: Stage) -> None:
    """The pusher's loop under the stage's lock: here threads share what on the server one hub owns."""
    assert stage.pusher is not None
    while True:
        with stage.lock:
            stage.pusher.round()
        time.sleep(0.1)


def create(stage: Stage) -> Flask:
    """The pages, the websocket and three routes."""
    app = Flask("stage", static_folder=str(ROOT / "static"), template_folder=str(ROOT / "templates"))
    app.register_blueprint(pages)
    socketio = SocketIO(app, async_mode="threading", cors_allowed_origins=None)

    stage.pusher = Pusher(socketio, stage.state, spawn=lambda loop: None, sleep=time.sleep, now=time.monotonic_ns)
    stage.pusher.start()
    threading.Thread(target=push, args=(stage,), daemon=True).start()

    @app.get("/api/live")
    def live() -> dict[str, Any]:
        with stage.lock:
            return stage.state.snapshot()

    @app.post("/api/runs")
    def start() -> dict[str, Any]:
        return stage.start(float(request.args.get("seconds", 60)))

    @app.post("/v1/chat/completions")
    def chat() -> Response:
        name = stage.submit(prompt=40, output=7)
        return Response(stage.answer(), content_type="text/event-stream", headers={"X-Request-Id": name})

    return app


def main() -> None:
    stage = Stage()
    app = create(stage)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, app, threaded=True)
    print(server.server_port, flush=True)
    if "--rest" not in sys.argv:
        stage.start(60)
    threading.Thread(target=stage.loop, daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
