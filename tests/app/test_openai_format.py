"""Formatting: what is streamed adds up to what is not streamed; usage and timing say what the events say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from web_builders import finished

from app.api.errors import Problem
from app.api.openai_format import DONE, Shape, StreamFrames, usage, whole
from app.api.openai_parse import CHAT, COMPLETIONS, Model, parse
from scheduler.core.events import Parts
from scheduler.core.request import FinishReason

MODEL = Model("m", 100, 64)
NASTY = ['a"b', "\\", "\n\u2028", "\U0001f600", "\x00cut\x00", "</script>"]


def shape(endpoint: str = COMPLETIONS, **fields: Any) -> Shape:
    body: dict[str, Any] = {"model": "m", **fields}
    body |= {"messages": [{"role": "user", "content": "hi"}]} if endpoint == CHAT else {"prompt": "hi"}
    return Shape("req_x", 7, "m", parse(endpoint, body, MODEL), 3)


def events(data: bytes) -> list[dict[str, Any]]:
    assert data.endswith(DONE)
    return [json.loads(event.removeprefix(b"data: ")) for event in data.removesuffix(DONE).split(b"\n\n")[:-1]]


@pytest.mark.parametrize("endpoint", [COMPLETIONS, CHAT])
def test_streamed_and_whole_answers_say_the_same(endpoint: str) -> None:
    streamed = shape(endpoint, stream=True, n=2)
    frames, ends = StreamFrames(streamed), [finished("a", 1), finished("b", 2, FinishReason.LENGTH)]
    data = frames.opening()
    data += b"".join(frames.token(index, text) for text in NASTY for index in (0, 1))
    data += frames.final(0, ends[0]) + frames.final(1, ends[1]) + frames.closing(ends)
    texts, reasons = ["", ""], [None, None]
    for event in events(data):
        choice = event["choices"][0]
        texts[choice["index"]] += choice["text"] if endpoint == COMPLETIONS else choice["delta"].get("content", "")
        reasons[choice["index"]] = choice["finish_reason"] or reasons[choice["index"]]
    told = json.loads(whole(streamed, ["".join(NASTY)] * 2, ends))
    said = [c["text"] if endpoint == COMPLETIONS else c["message"]["content"] for c in told["choices"]]
    assert texts == said == ["".join(NASTY)] * 2
    assert reasons == [c["finish_reason"] for c in told["choices"]] == ["stop", "length"]


@pytest.mark.parametrize("endpoint", [COMPLETIONS, CHAT])
def test_a_token_is_what_stands_around_it_and_its_text(endpoint: str) -> None:
    frames = StreamFrames(shape(endpoint, stream=True, n=2))
    for index in (0, 1):
        before, write, after = frames.around(index)
        assert [frames.token(index, text) for text in NASTY] == [before + write(text) + after for text in NASTY]


def test_chat_streams_open_with_the_role() -> None:
    first = json.loads(StreamFrames(shape(CHAT, stream=True)).opening().removeprefix(b"data: "))
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""} and first["object"] == "chat.completion.chunk"


def test_usage_comes_last_and_only_when_asked_for() -> None:
    silent = StreamFrames(shape(stream=True))
    assert silent.closing([finished()]) == DONE
    asked = StreamFrames(shape(stream=True, stream_options={"include_usage": True, "include_timing": True}))
    (last,) = events(asked.closing([finished()]))
    assert last["choices"] == [] and last["usage"]["total_tokens"] == 5 and last["batchscope"]["request_id"] == "req_x"
    assert b'"usage":null' in asked.token(0, "x")


def test_a_prompt_counts_once_however_many_choices_it_has() -> None:
    ends = [finished(output_tokens=2), finished(output_tokens=5)]
    assert usage(shape(n=2), ends)["prompt_tokens"] == 3 and usage(shape(n=2), ends)["completion_tokens"] == 7


def test_the_parts_of_the_timing_sum_to_e2e() -> None:
    parts = Parts((1_000_000, 2_000_000, 0, 0, 0, 0, 0, 0, 0), 3_000_000, 4_000_000, 5_000_000, 6_000_000)
    told = json.loads(whole(shape(), ["x"], [finished(parts=parts)]))["batchscope"]
    assert told["waits"] == {"step": 1.0, "slots": 2.0} and told["queue_ms"] == 3.0
    total = told["queue_ms"] + told["prefill_ms"] + told["decode_ms"] + told["stalled_ms"] + told["preempted_ms"]
    assert total == told["e2e_ms"] == 21.0


def test_a_failure_is_the_error_object_and_then_the_end_mark() -> None:
    (error,) = events(StreamFrames(shape(stream=True)).failure(Problem(500, "boom", None, "engine_crash")))
    assert error["error"] == {"message": "boom", "type": "server_error", "param": None, "code": "engine_crash"}


def test_an_echo_comes_before_the_output() -> None:
    echoing = Shape("req_x", 7, "m", parse(COMPLETIONS, {"model": "m", "prompt": "hi", "echo": True}, MODEL), 3, ("hi",))
    assert json.loads(whole(echoing, [" there"], [finished()]))["choices"][0]["text"] == "hi there"
    assert b'"text":"hi"' in StreamFrames(echoing).opening()
