"""The unmodified openai client against the real server process: answers, streams, usage, errors, hang-ups, crashes."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from live_server import LiveServer, wait_until

MODEL = "null"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("null"), "--runner", "null") as started:
        yield started


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """Simulated hardware with two slots: requests last, and wait."""
    arguments = ("--runner", "simulated", "--set", "max_num_seqs=2", "--drain", "1")
    with LiveServer(tmp_path_factory.mktemp("slow"), *arguments) as started:
        yield started


@pytest.fixture
def client(server: LiveServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0) as made:
        yield made


def messages(text: str = "Hello") -> Any:
    return [{"role": "user", "content": text}]


def test_chat_streamed_and_not_say_the_same(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": MODEL, "messages": messages(), "max_tokens": 12, "seed": 3}
    whole = client.chat.completions.create(**asked)
    pieces, usage, finish = [], None, None
    for chunk in client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            pieces.append(choice.delta.content or "")
            finish = choice.finish_reason or finish
    assert whole.choices[0].message.content and len("".join(pieces)) > 0
    assert whole.choices[0].finish_reason == finish == "length"
    assert whole.usage is not None and usage is not None
    assert usage.completion_tokens == whole.usage.completion_tokens == 12
    assert usage.prompt_tokens == whole.usage.prompt_tokens > 0 and usage.total_tokens == usage.prompt_tokens + 12


def test_completions_take_texts_and_ids_and_make_n_choices(client: openai.OpenAI) -> None:
    one = client.completions.create(model=MODEL, prompt="abc", max_tokens=4)
    assert one.choices[0].text and one.usage is not None and one.usage.prompt_tokens == 3
    many = client.completions.create(model=MODEL, prompt=["abc", "de"], n=2, max_tokens=4)
    assert [choice.index for choice in many.choices] == [0, 1, 2, 3]
    assert many.usage is not None and (many.usage.prompt_tokens, many.usage.completion_tokens) == (5, 16)
    ids = client.completions.create(model=MODEL, prompt=[[97, 98], [99]], max_tokens=2, echo=True)
    assert [choice.text[:2] for choice in ids.choices][0] == "ab" and ids.choices[1].text.startswith("c")
    streamed = {0: "", 1: ""}
    for chunk in client.completions.create(model=MODEL, prompt="abc", n=2, max_tokens=4, stream=True):
        streamed[chunk.choices[0].index] += chunk.choices[0].text
    assert all(streamed.values())


def test_models_are_listed_with_their_limits(client: openai.OpenAI) -> None:
    (listed,) = client.models.list().data
    assert listed.id == MODEL and client.models.retrieve(MODEL).id == MODEL
    extra = listed.model_extra or {}
    assert extra["max_model_len"] > 0 and extra["vocab_size"] > 0 and extra["kv_cache_tokens"] > 0
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


def test_errors_are_raised_as_the_clients_own_types(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model=MODEL, messages=messages(), temperature=9)
    assert bad.value.param == "temperature" and bad.value.code == "decimal_above_max_value"
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model=MODEL, messages=messages(), temperature=9, stream=True)
    with pytest.raises(openai.NotFoundError) as unknown:
        client.completions.create(model="other", prompt="x")
    assert unknown.value.code == "model_not_found" and unknown.value.request_id.startswith("req_")
    with pytest.raises(openai.BadRequestError) as long:
        client.completions.create(model=MODEL, prompt=[1] * 3000, max_tokens=1)
    assert long.value.code == "context_length_exceeded"


def test_the_row_of_an_answer_is_in_the_records_under_its_id(server: LiveServer, client: openai.OpenAI) -> None:
    headers = {"X-Request-Id": "label-1", "X-Batchscope-Run": "run-1"}
    extra = {"tenant": "t1", "kind": "batch", "priority": 5, "stream_options": None, "zebra": 1}
    raw = client.completions.with_raw_response.create(
        model=MODEL, prompt="abc", max_tokens=4, extra_headers=headers, extra_body=extra
    )
    row = wait_until(lambda: _finished(server, raw.headers["x-request-id"]))
    assert raw.headers["x-batchscope-run"] == "run-1"
    expected = {
        "run": "run-1", "client_request_id": "label-1", "tenant": "t1", "kind": "batch", "priority": 5, "finish": "length",
        "status_code": 200, "prompt_tokens": 3, "output_tokens": 4, "ignored_fields": ["zebra"],
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    parts = sum(row["waits"].values()) + row["prefill_ms"] + row["decode_ms"] + row["stalled_ms"] + row["preempted_ms"]
    assert parts == pytest.approx(row["e2e_ms"], abs=1e-3)


def test_a_refused_post_that_names_a_run_has_a_row(server: LiveServer, client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model=MODEL, prompt="x", n=0, extra_headers={"X-Batchscope-Run": "run-refused"})
    rows = wait_until(lambda: server.get("/api/requests?run=run-refused")["items"])
    assert (rows[0]["finish"], rows[0]["status_code"]) == ("rejected", 400)


def test_every_route_answers_errors_as_json(server: LiveServer, client: openai.OpenAI) -> None:
    for path, status in (("/nowhere", 404), ("/v1/completions", 405), ("/api/requests/req_none", 404), ("/api/runs/x", 404)):
        with pytest.raises(openai.APIStatusError) as caught:
            client.get(server.url + path, cast_to=object)
        assert caught.value.status_code == status and set(caught.value.body) >= {"message", "type", "param", "code"}  # type: ignore[call-overload]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_hang_up_frees_what_the_request_held(slow: LiveServer, streamed: bool) -> None:
    run = f"hang-{streamed}"
    with _post(slow, run, stream=streamed) as sock:
        wait_until(lambda: slow.get("/api/live")["gauges"]["running"] == 1)
        if streamed:
            assert b"200 OK" in sock.recv(100)
    row = wait_until(lambda: _only(slow, run, state="finished"), 5)
    assert (row["finish"], row["detail"]) == ("abort", "client_gone")
    gauges = wait_until(lambda: (g := slow.get("/api/live")["gauges"])["running"] == 0 and g, 5)
    assert gauges["waiting"] == 0


def test_a_hang_up_while_queued_and_a_time_out_and_a_cancel(slow: LiveServer) -> None:
    with _post(slow, "fill-1", stream=True), _post(slow, "fill-2", stream=True):
        wait_until(lambda: slow.get("/api/live")["gauges"]["running"] == 2)
        with _post(slow, "queued", stream=True) as sock:
            head = sock.recv(2000)
            assert b"X-Queue-Position: 1\r\n" in head and b"X-Queue-Position-Exact: true" in head
            path = f"/api/requests/{wait_until(lambda: _only(slow, 'queued', state='waiting'), 5)['id']}"
            here = wait_until(lambda: (shown := slow.get(path))["waited"] and shown, 5)  # once a step of its wait is recorded
            assert (here["queue"]["position"], here["queue"]["exact"], here["waited"][-1]["to_ms"]) == (1, True, None)
            held = wait_until(lambda: (now := slow.get("/api/live")["waiting_now"]) and now[0]["blockers"], 5)
            assert (held["reason"], held["limit"], held["rest"]) == ("slots", 2, 0)
        row = wait_until(lambda: _only(slow, "queued", state="finished"), 5)
        assert (row["finish"], row["detail"], row["output_tokens"]) == ("abort", "client_gone", 0)
        with _post(slow, "late", timeout_ms=50) as sock:
            assert sock.recv(2000).startswith(b"HTTP/1.1 504 ")
        with _post(slow, "cancelled") as sock:
            found = wait_until(lambda: _only(slow, "cancelled"), 5)
            assert slow.post(f"/api/requests/{found['id']}", {}, method="DELETE")["cancelled"]
            assert sock.recv(2000).startswith(b"HTTP/1.1 409 ")
    wait_until(lambda: slow.get("/api/live")["gauges"]["running"] == 0, 5)


def test_an_engines_death_ends_who_had_a_token_and_keeps_the_others(slow: LiveServer) -> None:
    with _post(slow, "had-1", stream=True) as had, _post(slow, "had-2", stream=True):
        wait_until(lambda: slow.get("/api/live")["gauges"]["running"] == 2)
        had.settimeout(10)
        data = b""
        while b'"text"' not in data:
            data += had.recv(4096)
        with _post(slow, "kept", max_tokens=3) as kept:
            wait_until(lambda: _only(slow, "kept"))
            os.kill(_engine_pid(slow), signal.SIGKILL)
            kept.settimeout(20)
            assert kept.recv(2000).startswith(b"HTTP/1.1 200 ")
        while not data.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"):
            data += had.recv(4096) or pytest.fail("the stream ended quietly")
        assert b"engine_crash" in data
    assert wait_until(lambda: _only(slow, "had-1", state="finished"))["detail"] == "engine_crash"
    row = wait_until(lambda: _only(slow, "kept", state="finished"))
    assert row["finish"] == "length" and row["waits"]["engine_down"] > 0


def _post(server: LiveServer, run: str, **fields: Any) -> socket.socket:
    """A long completion on a socket of its own."""
    host, port = server.url.removeprefix("http://").split(":")
    model = server.get("/v1/models")["data"][0]["id"]
    body = json.dumps({"model": model, "prompt": "hello", "max_tokens": 4000, "ignore_eos": True, **fields}).encode()
    sock = socket.create_connection((host, int(port)), 10)
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\nX-Batchscope-Run: {run}\r\n"
    )
    sock.sendall(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return sock


def _only(server: LiveServer, run: str, state: str = "") -> Any:
    items = server.get(f"/api/requests?run={run}")["items"]
    return items[0] if items and state in ("", items[0]["state"]) else None


def _finished(server: LiveServer, request_id: str) -> Any:
    row = server.get(f"/api/requests/{request_id}")
    return row if row["state"] == "finished" else None


def _engine_pid(server: LiveServer) -> int:
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    engines = [pid for pid in children if b"scheduler.engine.server" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    (pid,) = engines
    return int(pid)
