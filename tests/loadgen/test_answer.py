"""An answer: which events are tokens, what ends well, and what stays undefined. Numbers of the bug catalogue in brackets."""

import pytest
from fakes import DONE, delta, event, text, usage

from loadgen.answer import Answer, error_text
from loadgen.sse import SseSplitter


def fold(*timed: tuple[float, bytes]) -> Answer:
    answer, splitter = Answer(), SseSplitter()
    for at, data in timed:
        for each in splitter.feed(data):
            answer.take(each, at)
    return answer


def test_a_role_event_is_no_token_and_no_gap() -> None:  # B1
    answer = fold((0.1, delta("", role="assistant")), (0.5, delta("Hi")), (0.6, delta("!", finish="stop")), (0.6, DONE))
    assert answer.first == 0.5
    assert answer.gaps == pytest.approx([0.1])
    assert answer.verdict(None) == ("ok", None)


def test_empty_texts_nulls_and_usage_are_no_tokens() -> None:
    answer = fold((0.1, text("")), (0.2, delta(None, finish="stop")), (0.3, usage(5, 0)), (0.3, DONE))
    assert (answer.events, answer.first, answer.last) == (0, None, None)


def test_reasoning_and_tool_calls_are_tokens() -> None:
    for parts in ({"reasoning_content": "hm"}, {"reasoning": "hm"}, {"tool_calls": [{"index": 0}]}):
        assert fold((0.1, event(choices=[{"index": 0, "delta": parts}]))).events == 1


def test_tokens_in_the_first_event_are_known_when_the_server_says_so() -> None:  # B3
    steps = [(0.1 * i, text("abcde", usage={"prompt_tokens": 3, "completion_tokens": 5 * i})) for i in range(1, 5)]
    answer = fold(*steps)
    assert answer.first_tokens == 5
    assert answer.output_tokens == 20
    assert answer.gaps == pytest.approx([0.1, 0.1, 0.1])


def test_the_final_usage_counts_not_what_was_asked_for() -> None:  # B7
    answer = fold(*((0.1 * i, text("x", "stop" if i == 6 else None)) for i in range(7)), (0.8, usage(9, 7)), (0.8, DONE))
    assert (answer.output_tokens, answer.prompt_tokens, answer.estimated) == (7, 9, False)


def test_without_usage_events_are_counted_and_flagged() -> None:  # B8
    answer = fold((0.1, text("a", usage=None)), (0.2, text("b", "stop", usage=None)), (0.2, DONE))
    assert (answer.output_tokens, answer.prompt_tokens, answer.estimated) == (2, None, True)


def test_a_usage_of_zero_is_not_an_absent_one() -> None:  # B8
    answer = fold((0.1, text("", "stop")), (0.1, usage(4, 0)), (0.1, DONE))
    assert (answer.output_tokens, answer.estimated) == (0, False)


def test_an_error_in_the_stream_is_an_error_though_it_ends_with_done() -> None:  # B12
    answer = fold((0.1, text("a")), (0.2, event(error={"message": "engine died", "code": 500})), (0.2, DONE))
    assert answer.verdict(None) == ("stream_error", "engine died")


@pytest.mark.parametrize(
    ("stream", "status"),
    [
        ([], "empty_stream"),
        ([DONE], "empty_stream"),
        ([text("", "stop"), usage(3, 0), DONE], "empty_stream"),
        ([text("", "length"), usage(3, 2), DONE], "ok"),
        ([text("a", "stop")], "stream_error"),
        ([text("a"), DONE], "stream_error"),
        ([b"data: {not json\n\n", DONE], "stream_error"),
        ([b"data: 17\n\n", DONE], "stream_error"),
        ([b'event: error\ndata: {"message": "no"}\n\n', DONE], "stream_error"),
        ([event(choices="odd"), event(choices=["odd"]), text("a", "stop"), DONE], "ok"),
    ],
)
def test_statuses(stream: list[bytes], status: str) -> None:
    assert fold(*((0.1, each) for each in stream)).verdict(None)[0] == status


def test_a_break_after_done_does_not_matter_and_before_it_does() -> None:
    whole = fold((0.1, text("a", "stop")), (0.1, DONE))
    assert whole.verdict("TimeoutError")[0] == "ok"
    assert fold((0.1, text("a", "stop"))).verdict("reset")[0] == "stream_error"


def test_error_texts_are_found_wherever_they_stand() -> None:
    assert error_text({"error": {"message": "m"}}) == "m"
    assert error_text({"error": "plain"}) == "plain"
    assert error_text({"message": "bare"}) == "bare"
