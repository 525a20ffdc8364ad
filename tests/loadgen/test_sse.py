"""SSE: events do not depend on where the bytes were cut; comments, ids and odd line ends are understood."""

from loadgen.sse import SseEvent, SseSplitter

STREAM = (
    "\ufeff: keep-alive\r\n\r\n"
    'data: {"a":"Zürich"}\r\n\r\n'
    "event: note\r\nid: 7\r\ndata:no blank after the colon\r\n\r\n"
    "data: two\ndata: lines 漢字\n\n"
    ": ping\n\n"
    "event: forgotten, has no data\n\n"
    "data\n\n"
    "data: carriage\rdata: returns\r\r"
    "retry: 10\nunknown: field\n\n"
    "data:  keeps the second blank\n\n"
    "data: [DONE]\n\n"
).encode()
EVENTS = [
    SseEvent('{"a":"Zürich"}'.encode()),
    SseEvent(b"no blank after the colon", "note", "7"),
    SseEvent("two\nlines 漢字".encode(), "", "7"),
    SseEvent(b"", "", "7"),
    SseEvent(b"carriage\nreturns", "", "7"),
    SseEvent(b" keeps the second blank", "", "7"),
    SseEvent(b"[DONE]", "", "7"),
]


def split(*pieces: bytes) -> list[SseEvent]:
    splitter = SseSplitter()
    return [event for piece in pieces for event in splitter.feed(piece)] + splitter.close()


def test_every_form_of_line_is_understood() -> None:
    assert split(STREAM) == EVENTS


def test_a_cut_at_every_byte_changes_nothing() -> None:
    for cut in range(len(STREAM) + 1):
        assert split(STREAM[:cut], STREAM[cut:]) == EVENTS, cut


def test_single_bytes_change_nothing() -> None:
    assert split(*(STREAM[i : i + 1] for i in range(len(STREAM)))) == EVENTS


def test_comments_alone_are_no_event() -> None:
    assert split(b": ping\n\n: ping\r\n\r\n") == []


def test_a_last_event_without_its_blank_line_counts_at_the_end() -> None:
    splitter = SseSplitter()
    assert splitter.feed(b"data: [DONE]\n") == []
    assert splitter.close() == [SseEvent(b"[DONE]")]
    assert splitter.close() == []


def test_an_event_goes_out_with_its_blank_line_not_later() -> None:
    splitter = SseSplitter()
    assert splitter.feed(b"data: x\n\n") == [SseEvent(b"x")]
