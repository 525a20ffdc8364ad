"""Answers in OpenAI's shape: chunks, finals, usage, timing. Pure: knows no socket and no engine.

The chunk of a token is spliced: only its text is encoded (0.1 µs), the rest is bytes made once an answer.
Invariant: what is streamed for a choice, put together, is what the same answer says when it is not streamed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from app.api.errors import Problem
from app.api.openai_parse import CHAT, Generation
from scheduler.core.events import RequestFinished
from scheduler.core.request import WaitReason

DONE = b"data: [DONE]\n\n"
_CUT = "\x00cut\x00"
_CUT_JSON = orjson.dumps(_CUT)


@dataclass(frozen=True, slots=True)
class Shape:
    """What all parts of one answer share. `echoes`: the prompt's text a choice, where it was asked for."""

    request_id: str
    created: int
    model: str
    generation: Generation
    prompt_tokens: int
    echoes: tuple[str, ...] = ()

    @property
    def chat(self) -> bool:
        """Chat or plain completion."""
        return self.generation.endpoint == CHAT

    @property
    def id(self) -> str:
        """The id in the body."""
        return ("chatcmpl-" if self.chat else "cmpl-") + self.request_id.removeprefix("req_")

    def head(self, kind: str) -> dict[str, Any]:
        """The fields that every object begins with."""
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


class StreamFrames:
    """The server-sent events of one streamed answer."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._kind = "chat.completion.chunk" if shape.chat else "text_completion"
        cuts = [self._chunk(index, self._piece(_CUT), None).split(_CUT_JSON) for index in range(shape.generation.sequences)]
        self._prefixes = [before for before, _ in cuts]
        self._suffix = cuts[0][1]

    def opening(self) -> bytes:
        """The role of each choice (chat), or the echoed prompts."""
        if self._shape.chat:
            role = {"role": "assistant", "content": ""}
            return b"".join(self._chunk(index, {"delta": role}, None) for index in range(self._shape.generation.sequences))
        return b"".join(self.token(index, text) for index, text in enumerate(self._shape.echoes) if text)

    def token(self, index: int, text: str) -> bytes:
        """A piece of text."""
        return b"".join((self._prefixes[index], orjson.dumps(text), self._suffix))

    def around(self, index: int) -> tuple[bytes, Callable[[str], bytes], bytes]:
        """What `token` puts before the text, how it writes that, and what it puts after it."""
        return self._prefixes[index], orjson.dumps, self._suffix

    def final(self, index: int, finished: RequestFinished) -> bytes:
        """The finish_reason of a choice."""
        piece: dict[str, Any] = {"delta": {}} if self._shape.chat else {"text": ""}
        return self._chunk(index, piece, finished.reason.value)

    def closing(self, finished: Sequence[RequestFinished]) -> bytes:
        """Usage and timing if asked for, then the end mark."""
        generation, last = self._shape.generation, b""
        if generation.include_usage or generation.include_timing:
            body = self._shape.head(self._kind) | {"choices": []}
            if generation.include_usage:
                body["usage"] = usage(self._shape, finished)
            if generation.include_timing:
                body["batchscope"] = timing(self._shape, finished)
            last = _event(body)
        return last + DONE

    def failure(self, problem: Problem) -> bytes:
        """The error object, then the end mark."""
        return b"data: " + problem.body() + b"\n\n" + DONE

    def _piece(self, text: str) -> dict[str, Any]:
        return {"delta": {"content": text}} if self._shape.chat else {"text": text}

    def _chunk(self, index: int, piece: dict[str, Any], finish: str | None) -> bytes:
        choice = {"index": index, **piece, "logprobs": None, "finish_reason": finish}
        body = self._shape.head(self._kind) | {"choices": [choice]}
        if self._shape.generation.include_usage:
            body["usage"] = None
        return _event(body)


def whole(shape: Shape, texts: Sequence[str], finished: Sequence[RequestFinished]) -> bytes:
    """The answer that is not streamed."""
    echoes = shape.echoes or ("",) * len(texts)
    choices = [
        _choice(shape, index, echo + text, event.reason.value)
        for index, (echo, text, event) in enumerate(zip(echoes, texts, finished, strict=True))
    ]
    body = shape.head("chat.completion" if shape.chat else "text_completion")
    body |= {"choices": choices, "usage": usage(shape, finished), "batchscope": timing(shape, finished)}
    return orjson.dumps(body)


def usage(shape: Shape, finished: Sequence[RequestFinished]) -> dict[str, Any]:
    """Tokens in and out; a prompt counts once, however many choices it has."""
    completion = sum(event.output_tokens for event in finished)
    cached = sum(event.cached_tokens for event in finished[:: shape.generation.n])
    return {
        "prompt_tokens": shape.prompt_tokens,
        "completion_tokens": completion,
        "total_tokens": shape.prompt_tokens + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def timing(shape: Shape, finished: Sequence[RequestFinished]) -> dict[str, Any]:
    """Where the time went, of the sequence that ended last: its parts sum to e2e_ms."""
    last = max(finished, key=lambda event: event.at)
    parts = last.parts
    return {
        "request_id": shape.request_id,
        "queue_ms": _ms(sum(parts.waits)),
        "waits": {reason.name.lower(): _ms(parts.waits[reason]) for reason in WaitReason if parts.waits[reason]},
        "prefill_ms": _ms(parts.prefill),
        "decode_ms": _ms(parts.decode),
        "stalled_ms": _ms(parts.stalled),
        "preempted_ms": _ms(parts.preempted),
        "e2e_ms": _ms(parts.total),
        "preemptions": sum(event.preemptions for event in finished),
        "cached_tokens": last.cached_tokens,
    }


def _choice(shape: Shape, index: int, text: str, finish: str) -> dict[str, Any]:
    if shape.chat:
        message = {"role": "assistant", "content": text, "refusal": None}
        return {"index": index, "message": message, "logprobs": None, "finish_reason": finish}
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish}


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(body) + b"\n\n"


def _ms(ns: int) -> float:
    return round(ns / 1e6, 3)
