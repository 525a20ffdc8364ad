"""Control of the scheduler: its settings, its catalog of policies, and the hold. Knows no request.

Invariant: a change applies between two steps and only on top of the version that its author saw.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from flask import Blueprint, Response, request

from app.api import fields
from app.api.answers import json_answer
from app.api.decode import decode_object
from app.api.errors import bad, conflict, not_found, unavailable
from app.api.requests import ask, params
from app.api.vllm_flags import vllm_flags
from app.extensions import Parts, parts
from app.store.settings_history import changes_json
from scheduler.core.policies.catalog import CATALOG
from scheduler.engine.messages import Reply
from scheduler.errors import EngineGone
from scheduler.settings import describe

scheduler = Blueprint("scheduler", __name__, url_prefix="/api/scheduler")


@scheduler.get("")
def show() -> Response:
    """Settings in effect, their version, the table of settings, the catalog of policies, the same as flags of vLLM."""
    return json_answer(_state(parts()))


@scheduler.get("/changes")
def changes() -> Response:
    """What was changed from what to what, when and during which run, newest first: {items, truncated}."""
    return json_answer(ask(changes_json, params()))


@scheduler.patch("")
def change() -> Response:
    """Change settings live. `version`, when given, must be the one in effect."""
    here = parts()
    body = decode_object(request.get_data(cache=False))
    expected = fields.integer(body, "version", 0, 1 << 31)
    changes = {name: value for name, value in body.items() if name != "version"}
    if not changes:
        raise bad("name at least one setting to change", None, "missing_required_parameter")
    try:
        reply = here.engine.patch(changes, expected)
    except EngineGone as error:
        raise unavailable(error.message, "engine_down", 2.0) from error
    _check(reply)
    return json_answer(_state(here))


@scheduler.post("/<what>")
def hold(what: str) -> Response:
    """pause, step or resume."""
    here = parts()
    if what not in ("pause", "step", "resume"):
        raise not_found(f"/api/scheduler/{what[:40]}", "unknown_url")
    if what == "step" and not here.engine.status.paused:
        raise conflict("the scheduler is not paused; a single step needs a pause first", "not_paused")
    try:
        _check(here.engine.hold(what))
    except EngineGone as error:
        raise unavailable(error.message, "engine_down", 2.0) from error
    return json_answer(_state(here))


def _check(reply: Reply) -> None:
    if reply.error == "conflict":
        raise conflict(reply.message, "version_conflict", "version")
    if reply.error is not None:
        raise bad(reply.message, reply.param, "invalid_value")


def _state(here: Parts) -> dict[str, Any]:
    status = here.engine.status
    catalog = [
        {
            "name": info.name,
            "help": info.help,
            "params": [asdict(param) | {"whole": param.whole} for param in info.params],
            "guarantee": info.guarantee,
            "source": info.source,
            "yours": False,
        }
        for info in CATALOG.values()
    ]
    catalog += [{**row, "yours": True} for row in status.policies]
    return {
        "engine": "paused" if here.engine.up and status.paused else status.state,
        "paused": status.paused,
        "version": status.version,
        "settings": status.settings,
        "table": describe(),
        "policies": catalog,
        "vllm": vllm_flags(status.settings, describe()),
    }
