"""One call against a real socket: when the first token is stamped, how each failure is named, which connection is used."""

import time
from collections.abc import Iterator

import gevent
import pytest
from fakes import CLOSE, DONE, END, HEAD, FakeRequest, FakeServer, Script, Step, chunk, delta, refusal, stream, text, usage

from loadgen.call import Call, encode, perform
from loadgen.connection import Pool
from loadgen.results import Record

GOOD = [text("Grüße "), text("漢字"), text("!", "length"), usage(12, 3), DONE]


def play(*steps: Step) -> Script:
    return lambda _: steps


def send(
    pool: Pool, n: int = 0, timeout_s: float = 5.0, cancel_after_s: float | None = None, due: float | None = None
) -> Record:
    data = encode("/v1/completions", "127.0.0.1", b'{"max_tokens": 3}', {"X-Request-Id": f"r-{n}"})
    return perform(Call(f"r-{n}", n, "t", "k", data, None, timeout_s, cancel_after_s, time.perf_counter()), pool)


def one(script: Script, **options: float) -> Record:
    with FakeServer(script) as server:
        pool = Pool(server.url)
        record = send(pool, **options)  # type: ignore[arg-type]
        pool.close()
    return record


def test_the_first_token_is_stamped_when_it_comes_not_the_role() -> None:  # B1
    record = one(
        play(*stream(delta("", role="assistant"), 0.3, delta("Hi"), 0.1, delta("!", finish="stop"), usage(5, 2), DONE))
    )
    assert record.status == "ok"
    assert record.first_ms is not None and 290 < record.first_ms < 600
    assert len(record.gaps_ms) == 1 and record.gaps_ms[0] < 290


def test_tokens_are_stamped_one_by_one_not_when_a_buffer_is_full() -> None:
    record = one(play(*stream(*(step for i in range(5) for step in (text("x", "stop" if i == 4 else None), 0.05)), DONE)))
    assert len(record.gaps_ms) == 4 and sum(record.gaps_ms) > 150 and min(record.gaps_ms) > 2


def test_a_cut_at_every_byte_of_the_response_changes_nothing() -> None:  # B5
    raw = b"".join(step for step in stream(*GOOD) if isinstance(step, bytes))
    cuts = iter(range(1, len(raw)))

    def script(_: FakeRequest) -> Iterator[Step]:
        cut = next(cuts)
        yield raw[:cut]
        yield 0.0005
        yield raw[cut:]

    with FakeServer(script) as server:
        pool = Pool(server.url)
        records = [send(pool, n) for n in range(len(raw) - 1)]
        pool.close()
    seen = {(r.status, r.output_tokens, r.prompt_tokens, len(r.gaps_ms), r.estimated) for r in records}
    assert seen == {("ok", 3, 12, 2, False)}
    assert server.connections == 1


def test_single_bytes_change_nothing() -> None:  # B5
    raw = b"".join(step for step in stream(*GOOD) if isinstance(step, bytes))
    record = one(play(*(raw[i : i + 1] for i in range(len(raw)))))
    assert (record.status, record.output_tokens, len(record.gaps_ms)) == ("ok", 3, 2)


def test_pings_are_neither_tokens_nor_gaps() -> None:  # B6
    record = one(play(*stream(b": ping\n\n", 0.1, text("a"), b": ping\n\n", 0.1, text("b", "stop"), usage(1, 2), DONE)))
    assert record.status == "ok" and len(record.gaps_ms) == 1 and record.first_ms is not None and record.first_ms > 80


def test_one_user_keeps_one_connection() -> None:  # B39
    with FakeServer() as server:
        pool = Pool(server.url)
        assert {send(pool, n).status for n in range(5)} == {"ok"}
        pool.close()
    assert server.connections == pool.opened == 1


def test_a_server_that_never_closes_after_done_costs_a_short_wait_only() -> None:  # B39
    record = one(play(HEAD, *(chunk(each) for each in GOOD), 4.0, END), timeout_s=30.0)
    assert record.status == "ok"
    assert record.last_ms is not None and record.last_ms < 500 and record.end_ms < 2500


def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    with FakeServer(lambda _: [*stream(*GOOD), CLOSE]) as server:
        pool = Pool(server.url)
        first = send(pool)
        gevent.sleep(0.1)
        assert (first.status, send(pool, 1).status) == ("ok", "ok")
        pool.close()
    assert server.connections == 2


def test_an_error_in_a_stream_of_status_200_is_a_stream_error() -> None:  # B12
    record = one(play(*stream(text("a"), b'data: {"error": {"message": "gone", "code": 500}}\n\n', DONE)))
    assert (record.status, record.http, record.error) == ("stream_error", 200, "gone")


def test_a_clean_close_without_any_event_is_an_empty_stream() -> None:  # B12
    assert one(play(HEAD, END)).status == "empty_stream"


@pytest.mark.parametrize(
    ("steps", "status", "http"),
    [
        ([HEAD, chunk(text("a")), CLOSE], "stream_error", 200),
        ([HEAD, CLOSE], "stream_error", 200),
        ([CLOSE], "http_error", None),
        ([b"nonsense\r\n\r\n"], "http_error", None),
        (refusal(400, "too long"), "http_error", 400),
        (refusal(500, keep=False), "http_error", 500),
        (refusal(429), "shed", 429),
        (refusal(503), "shed", 503),
        ([b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"], "stream_error", 200),
        (stream(text("a", "stop")), "stream_error", 200),
        (stream(text("a"), DONE), "stream_error", 200),
    ],
)
def test_each_way_to_fail_has_its_status(steps: list[Step], status: str, http: int | None) -> None:
    record = one(play(*steps))
    assert (record.status, record.http) == (status, http)


def test_a_refusal_keeps_its_words_and_its_connection() -> None:
    with FakeServer(lambda _: refusal(400, "prompt is too long")) as server:
        pool = Pool(server.url)
        assert [send(pool, n).error for n in range(3)] == ["prompt is too long"] * 3
        pool.close()
    assert server.connections == 1


def test_nobody_listening_is_an_http_error_without_status() -> None:
    record = send(Pool("http://127.0.0.1:1"))
    assert (record.status, record.http) == ("http_error", None) and "refused" in str(record.error)


def test_the_clients_own_time_out() -> None:
    record = one(play(HEAD, chunk(text("a")), 1.0), timeout_s=0.2)
    assert record.status == "timeout" and record.output_tokens == 1 and record.end_ms < 900


def test_a_client_that_hangs_up_is_a_cancel() -> None:
    record = one(play(HEAD, chunk(text("a")), 1.0), cancel_after_s=0.15)
    assert record.status == "client_cancel" and record.error is None


def test_a_killed_call_is_incomplete_and_keeps_what_it_saw() -> None:
    with FakeServer(play(HEAD, chunk(text("a")), 2.0)) as server:
        greenlet = gevent.spawn(send, Pool(server.url))
        gevent.sleep(0.3)
        greenlet.kill(block=True)
    record = greenlet.value
    assert (record.status, record.http, record.output_tokens) == ("incomplete", 200, 1) and record.first_ms is not None


def test_what_a_failure_does_not_define_is_null_not_zero() -> None:
    record = one(play(*refusal(500)))
    undefined = (record.first_ms, record.last_ms, record.due_ms, record.output_tokens, record.prompt_tokens)
    assert undefined == (None,) * 5 and record.gaps_ms == () and record.attempts == 1


def test_the_servers_name_of_the_request_is_kept() -> None:
    head = HEAD.replace(b"\r\n\r\n", b"\r\nX-Request-Id: req_9\r\n\r\n")
    assert one(play(head, *(chunk(each) for each in GOOD), END)).server_id == "req_9"
