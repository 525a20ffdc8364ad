"""create_app: Flask with its blueprints, extensions and error handlers, around the parts it is given. Starts nothing.

Invariant: every view answers JSON errors; every response but a file of static/ is `no-store`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from flask import Flask

from app import static_files
from app.api import errors, scopes
from app.api.database import database
from app.api.openai import openai
from app.api.ops import ops
from app.api.reports import reports
from app.api.requests import requests_api
from app.api.runs import runs
from app.api.scheduler import scheduler
from app.api.sql import sql
from app.extensions import Parts, socketio
from app.live import MAX_DASHBOARDS, NAMESPACE
from app.live_manners import Manners
from app.live_packet import LivePacket
from app.pages import no_such_page, pages
from app.serving import websocket

ROOT = Path(__file__).resolve().parents[1]
PING_S = 5
MAX_WEBSOCKET_MESSAGE = 16 << 10
REFUSALS = 14  # websockets beyond the dashboards, so that who is one too many can be told why


def create_app(parts: Parts, origins: Iterable[str], *, plain_static: bool = False) -> Flask:
    """The application; Socket.IO wraps its wsgi_app. `origins`: the pages that may open a websocket."""
    app = Flask("app", template_folder=str(ROOT / "templates"), static_folder=None)
    app.extensions["batchscope"] = parts
    app.config["MAX_FORM_MEMORY_SIZE"] = 0
    app.json.sort_keys = False  # type: ignore[attr-defined]
    errors.register(app)
    app.register_error_handler(404, no_such_page)
    scopes.register(app)
    for blueprint in (openai, ops, scheduler, runs, reports, requests_api, sql, database, pages):
        app.register_blueprint(blueprint)
    static_files.install(app, ROOT / "static", as_written=plain_static)
    _open_websocket(app, origins)
    return app


def _open_websocket(app: Flask, origins: Iterable[str]) -> None:
    """Socket.IO over our own websocket."""
    socketio.init_app(
        app,
        async_mode="gevent",
        transports=["websocket"],
        cors_allowed_origins=sorted(origins),
        ping_interval=PING_S,
        ping_timeout=PING_S,
        max_http_buffer_size=MAX_WEBSOCKET_MESSAGE,
        namespaces=[NAMESPACE],
        serializer=LivePacket,
    )
    websocket.install(socketio.server.eio, partial(Manners, time.monotonic), MAX_DASHBOARDS + REFUSALS)
