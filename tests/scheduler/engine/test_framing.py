"""Frames: messages cut anywhere arrive whole and in order, and nothing else gets through."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from wire_examples import TO_ENGINE, TO_WEB

from scheduler.engine.framing import Unframer, frame
from scheduler.engine.messages import Loading, Message
from scheduler.errors import ProtocolError


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 11, 1000])
def test_messages_cut_anywhere_arrive_whole_and_in_order(cut):
    for to_engine, sent in ((True, TO_ENGINE), (False, TO_WEB)):
        data = b"".join(frame(message) for message in sent)
        unframer = Unframer(to_engine=to_engine)
        received = [m for i in range(0, len(data), cut) for m in unframer.feed(data[i : i + cut])]
        assert received == sent


def test_a_message_of_the_wrong_direction_is_refused():
    with pytest.raises(ProtocolError):
        Unframer(to_engine=True).feed(frame(Loading("x")))


def test_a_giant_frame_is_refused_before_it_is_read():
    with pytest.raises(ProtocolError, match="limit"):
        Unframer(to_engine=True).feed(b"\xff\xff\xff\xff")


@given(st.binary(min_size=1, max_size=64))
@example(b"\x91\xa3\x00\x00\x80")  # a tag that is no UTF-8
def test_garbage_is_a_protocol_error_and_nothing_else(body):
    unframer = Unframer(to_engine=True)
    try:
        messages = unframer.feed(len(body).to_bytes(4, "big") + body)
    except ProtocolError:
        return
    assert all(isinstance(message, Message) for message in messages)
