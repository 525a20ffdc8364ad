"""The inference API: POST /v1/completions, POST /v1/chat/completions, GET /v1/models. Knows no scheduling and no table.

Invariants: no byte of an answer leaves before its row is durable and the core has said yes; a POST that names a run has a
row even when it is refused; whatever nobody waits for any more is aborted.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from dataclasses import dataclass
from typing import Any

from flask import Blueprint, Response, request

from app.api import openai_format, outcomes
from app.api.answers import json_answer
from app.api.decode import decode_object
from app.api.errors import ApiError, not_found, unavailable
from app.api.openai_parse import CHAT, COMPLETIONS, Generation, Model, parse
from app.api.sequences import Prompts, read_prompts, submits_of
from app.extensions import Parts, in_order_of_arrival, parts
from app.serving.answers import Answer
from app.serving.token_streams import TokenStream
from app.store.accepted import AcceptedRow
from scheduler.engine.messages import Submit

openai = Blueprint("openai", __name__, url_prefix="/v1")

MAX_LABEL = 200


@dataclass(frozen=True, slots=True)
class Call:
    """One POST as it arrived: our id, the instant, and the labels of its headers."""

    id: str
    endpoint: str
    received_at: int
    received_wall: int
    run: str | None
    client_request_id: str | None
    key_name: str | None


@openai.post("/completions")
def completions() -> Response:
    """A plain completion."""
    return _serve(COMPLETIONS)


@openai.post("/chat/completions")
def chat_completions() -> Response:
    """A chat completion."""
    return _serve(CHAT)


@openai.get("/models")
def models() -> Response:
    """The one model that is served."""
    return json_answer({"object": "list", "data": [_model_card(parts())]})


@openai.get("/models/<path:name>")
def model(name: str) -> Response:
    """One model by its id."""
    card = _model_card(parts())
    if card["id"] != name:
        raise not_found(f"the model {name[:80]!r}", "model_not_found")
    return json_answer(card)


def _serve(endpoint: str) -> Response:
    here, call = parts(), _call(endpoint)
    try:
        generation, prompts = _read(here, call)
        submits = _submits(here, call, generation, prompts)
    except ApiError as error:
        _record_refusal(here, call, error)
        raise
    return _answer(here, call, generation, prompts, submits)


def _call(endpoint: str) -> Call:
    arrived = request.environ["batchscope.received_at"]
    return Call(
        id=request.environ["batchscope.request_id"],
        endpoint=endpoint,
        received_at=arrived,
        received_wall=time.time_ns() - (time.monotonic_ns() - arrived),
        run=_label("X-Batchscope-Run", 64),
        client_request_id=_label("X-Request-Id", MAX_LABEL),
        key_name=request.environ.get("batchscope.key_name"),
    )


def _label(header: str, longest: int) -> str | None:
    text = request.headers.get(header, "").strip()
    return "".join(c for c in text if c.isprintable())[:longest] or None


def _read(here: Parts, call: Call) -> tuple[Generation, Prompts]:
    """Decode, check, tokenize; raises ApiError for whatever stands against accepting."""
    if here.draining():
        raise ApiError(outcomes.shutting_down())
    if wait := here.rates.take(call.key_name):
        raise ApiError(outcomes.too_often(call.key_name or "", wait))
    if (trouble := here.writer.trouble) is not None:
        raise ApiError(outcomes.storage(trouble))
    if here.overload.full:
        raise ApiError(outcomes.queue_full(here.overload.retry_after_s), "queue_full")
    body = decode_object(request.get_data(cache=False))
    served = served_model(here)
    generation = parse(call.endpoint, body, served)
    text = here.text()
    if text is None:
        raise unavailable("the tokenizer is loading", "engine_loading")
    generation, prompts = read_prompts(generation, text, served, here.engine.status.settings, here.run_native)
    if here.draining():  # a stop that began while the tokenizer's thread worked may have counted who is in flight
        raise ApiError(outcomes.shutting_down())
    lengths = [len(ids) for ids in prompts.ids for _ in range(generation.n)]
    if here.overload.misses(call.received_at, generation.deadline_ms, lengths):
        raise ApiError(outcomes.shed(here.overload.retry_after_s), "shed")
    return generation, prompts


def served_model(here: Parts) -> Model:
    """The model in service; raises 503 while there is none."""
    status = here.engine.status
    if not here.engine.up:
        code = "engine_loading" if status.state == "loading" else "engine_down"
        raise unavailable(f"the engine is {status.state}: {status.text}", code, here.engine.retry_s)
    capacity = status.capacity
    return Model(capacity["model"], capacity["vocab_size"], status.settings["max_model_len"])


def _submits(here: Parts, call: Call, generation: Generation, prompts: Prompts) -> list[Submit]:
    """What the engine is given; raises ApiError for what has killed it before."""
    default_timeout_ms = here.engine.status.settings["default_timeout_ms"]
    tenant = _tenant(call, generation)
    submits = submits_of(call.id, generation, prompts, call.received_at, tenant, call.run, default_timeout_ms)
    if here.acceptance.suspects.refuses(submits):
        raise ApiError(outcomes.poison())
    return submits


def _tenant(call: Call, generation: Generation) -> str:
    return generation.tenant or call.key_name or "default"


def _answer(here: Parts, call: Call, generation: Generation, prompts: Prompts, submits: list[Submit]) -> Response:
    shape = openai_format.Shape(
        call.id,
        call.received_wall // 1_000_000_000,
        here.engine.status.capacity["model"],
        generation,
        prompts.tokens,
        prompts.echoes,
    )
    stream = TokenStream(request.environ["batchscope.socket"], chunked=request.environ["SERVER_PROTOCOL"] != "HTTP/1.0")
    frames = openai_format.StreamFrames(shape) if generation.stream else None
    keep = not generation.stream or here.settings.record_text
    explain = outcomes.explainer(call.endpoint, lambda: here.overload.retry_after_s)
    answer = Answer(call.id, submits, stream, explain, frames=frames, keep_text=keep)
    here.acceptance.begin(_row(here, call, generation, prompts, shape.model), answer, submits)
    answer.wait()
    if answer.problem is not None or stream.lost is not None:
        raise _refused(here, call, answer)
    if frames is not None:
        return _streamed(here, call, answer)
    answer.wait_over()
    if answer.problem is not None or stream.lost is not None:
        raise _refused(here, call, answer)
    here.acceptance.settle(answer)
    _record_text(here, call, answer)
    return Response(
        openai_format.whole(shape, answer.texts, answer.finished), content_type="application/json", headers=_run(call)
    )


def _streamed(here: Parts, call: Call, answer: Answer) -> Response:
    headers = {"X-Accel-Buffering": "no", "Cache-Control": "no-cache", **_run(call)}
    if not any(track.scheduled for track in answer.tracks):
        place = here.in_flight.place()
        headers["X-Queue-Position"] = str(place.position)
        headers["X-Queue-Position-Exact"] = str(in_order_of_arrival(here.engine.status.settings)).lower()
        if place.start_ms is not None:
            headers["X-Estimated-Start-Ms"] = f"{place.start_ms:g}"
    response = Response(answer.body(request.environ["batchscope.flush"]), mimetype="text/event-stream", headers=headers)

    def closed() -> None:
        here.acceptance.settle(answer)
        if answer.problem is not None or answer.stream.lost is not None:
            here.writer.amend(call.id, status_code=200)  # the status line had left
        _record_text(here, call, answer)

    response.call_on_close(closed)
    return response


def _refused(here: Parts, call: Call, answer: Answer) -> ApiError:
    """The answer ends before its first byte."""
    here.acceptance.settle(answer, "client_gone" if answer.stream.lost else "operator")
    problem = answer.problem if answer.stream.lost is None and answer.problem is not None else outcomes.GONE
    here.writer.amend(call.id, status_code=problem.status)
    return ApiError(problem)


def _row(here: Parts, call: Call, generation: Generation, prompts: Prompts, model: str) -> AcceptedRow:
    return AcceptedRow(
        id=call.id,
        received_at=call.received_at,
        received_wall=call.received_wall,
        endpoint=call.endpoint,
        stream=generation.stream,
        model=model,
        run=call.run,
        client_request_id=call.client_request_id,
        tenant=_tenant(call, generation),
        kind=generation.kind,
        priority=generation.priority,
        sequences=generation.sequences,
        prompt_tokens=prompts.tokens,
        max_tokens=generation.params.max_tokens,
        deadline_ms=generation.deadline_ms,
        timeout_ms=generation.timeout_ms,
        ignored_fields=generation.ignored_fields,
        prompt_hash=hmac.new(here.hash_key, prompts.text.encode(), hashlib.sha256).hexdigest(),
        prompt_text=prompts.text if here.settings.record_text else None,
    )


def _record_refusal(here: Parts, call: Call, error: ApiError) -> None:
    row = AcceptedRow(
        call.id, call.received_at, call.received_wall, call.endpoint, run=call.run, client_request_id=call.client_request_id
    )
    here.counters.refused[error.detail] += 1
    here.acceptance.refuse(row, error.problem.status, error.detail)


def _record_text(here: Parts, call: Call, answer: Answer) -> None:
    if here.settings.record_text and answer.problem is None and answer.stream.lost is None:
        here.writer.amend(call.id, output_text="\n".join(answer.texts))


def _run(call: Call) -> dict[str, str]:
    return {} if call.run is None else {"X-Batchscope-Run": call.run}


def _model_card(here: Parts) -> dict[str, Any]:
    served, status = served_model(here), here.engine.status
    return {
        "id": served.name,
        "object": "model",
        "created": here.started_wall // 1_000_000_000,
        "owned_by": "batchscope",
        "max_model_len": served.max_model_len,
        "vocab_size": served.vocab_size,
        "kv_cache_tokens": status.settings["kv_cache_tokens"],
    }
