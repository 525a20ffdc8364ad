"""Operations: liveness, readiness, metrics, the live snapshot, and an operator's cancel. Knows no request's content."""

from __future__ import annotations

from flask import Blueprint, Response

from app.api.answers import json_answer
from app.api.errors import conflict, not_found
from app.extensions import Parts, parts

ops = Blueprint("ops", __name__)


@ops.get("/livez")
def livez() -> Response:
    """The web process answers; nothing else is looked at."""
    return json_answer({"status": "ok"})


@ops.get("/readyz")
def readyz() -> Response:
    """Would a request be served now? 503 says what is missing."""
    here = parts()
    lacking = _lacking(here)
    body = {"status": "ready" if not lacking else "not ready", "engine": here.engine.status.state, "lacking": lacking}
    response = json_answer(body)
    if lacking:
        response.status_code = 503
        response.headers["Retry-After"] = "1"
    return response


@ops.get("/metrics")
def metrics() -> Response:
    """Prometheus text."""
    here = parts()
    stats = here.writer.stats()
    gauges = {
        "engine_up": int(here.engine.up),
        "engine_boot": here.engine.status.boot,
        "requests_in_flight": here.in_flight.sequences,
        "records_pending": stats.pending + stats.events,
        "records_errors": stats.errors,
        "records_lost": stats.lost,
        "poison_requests": here.acceptance.suspects.poisonous,
        "feed_failures": sum(here.feed.failures.values()),
    }
    return Response(here.counters.render(gauges), content_type="text/plain; version=0.0.4; charset=utf-8")


@ops.get("/api/live")
def live() -> Response:
    """The snapshot that the websocket also sends."""
    return json_answer(parts().live.snapshot())


@ops.delete("/api/requests/<path:request_id>")
def cancel(request_id: str) -> Response:
    """End a live request as `abort: operator`; its client is told."""
    here = parts()
    if here.acceptance.cancel(request_id):
        return json_answer({"id": request_id, "cancelled": True})
    if here.run_native(here.queries.request, request_id.partition("/")[0]) is None:
        raise not_found(f"request {request_id[:64]!r}", "request_not_found")
    raise conflict(f"request {request_id} has ended already", "request_finished")


def _lacking(here: Parts) -> list[str]:
    lacking = []
    if not here.engine.up:
        lacking.append(f"the engine is {here.engine.status.state}: {here.engine.status.text}".rstrip(": "))
    elif here.text() is None:
        lacking.append("the tokenizer is loading")
    if here.writer.failing:
        lacking.append("the records cannot be written")
    if here.draining():
        lacking.append("the server is shutting down")
    return lacking
