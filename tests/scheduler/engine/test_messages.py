"""What crosses the wire: every kind of event survives it, and what does not fit is an error."""

from __future__ import annotations

import msgspec
import pytest
from wire_examples import EVENTS, TO_ENGINE, TO_WEB

from scheduler.core.events import EVENT_TYPES
from scheduler.engine import messages as wire
from scheduler.errors import ProtocolError


def test_every_message_has_an_example_here():
    kinds = (*wire.ToEngine.__args__, *wire.ToWeb.__args__)
    assert {type(message) for message in (*TO_ENGINE, *TO_WEB)} == set(kinds)


def test_every_event_kind_has_an_example_here():
    assert {type(event) for event in EVENTS} == set(EVENT_TYPES)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_survives_the_wire(event):
    row = msgspec.msgpack.decode(msgspec.msgpack.encode(wire.pack_event(event)))
    revived = wire.unpack_event(row)
    assert revived == event
    assert type(revived).__name__ == type(event).__name__


@pytest.mark.parametrize("row", [[], [99, 1, 2, 3], [2, 1], [7, 1, 8, 11, 2, "r", 0, "nonsense", None, 1, 1, 1, 1, []], ["x"]])
def test_an_event_that_does_not_fit_is_a_protocol_error(row):
    with pytest.raises(ProtocolError):
        wire.unpack_event(row)
