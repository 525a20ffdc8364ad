"""The text that is written for an event is, byte for byte, what orjson makes of its fields, and no field is left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from orjson import dumps

from app.store import event_data
from scheduler.core.events import (
    Event,
    FirstToken,
    Parts,
    RequestFinished,
    RequestParked,
    RequestPreempted,
    RequestQueued,
    RequestScheduled,
    RequestUnparked,
)
from scheduler.core.holders import Blockers, Holding
from scheduler.core.request import FinishReason, WaitReason
from scheduler.metrics import WAIT_REASONS

WRITERS: dict[type[Event], Callable[[Any], str]] = {
    RequestQueued: event_data.queued,
    RequestScheduled: event_data.scheduled,
    RequestParked: event_data.parked,
    RequestUnparked: event_data.numbered,
    RequestPreempted: event_data.preempted,
    FirstToken: event_data.numbered,
    RequestFinished: event_data.finished,
}
COLUMNS = ("boot", "seq", "at", "id")
ints = st.integers(-(1 << 63), (1 << 63) - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]))
parts = st.builds(Parts, st.tuples(*[ints] * len(WAIT_REASONS)), ints, ints, ints, ints)
blockers = st.builds(Blockers, ints, st.lists(st.builds(Holding, texts, ints, ints), max_size=3).map(tuple), *[ints] * 7)
BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "int": ints,
    "int | None": st.none() | ints,
    "bool": st.booleans(),
    "str": texts,
    "str | None": st.none() | texts,
    "FinishReason": st.sampled_from(FinishReason),
    "WaitReason": st.sampled_from(WaitReason),
    "Parts": parts,
    "Blockers | None": st.none() | blockers,
}


def told(event: Event) -> dict[str, Any]:
    """The event's own fields in their order, as the records name them."""
    data = {spec.name: getattr(event, spec.name) for spec in fields(event) if spec.name not in COLUMNS}
    if isinstance(event, RequestFinished):
        data["parts"] = event.parts._asdict()
    if isinstance(event, RequestParked):
        data["cause"] = WAIT_REASONS[event.cause]
        data["blockers"] = None if event.blockers is None else event.blockers.named(event.cause)
    return data


@pytest.mark.parametrize("kind", WRITERS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_the_text_is_what_orjson_makes_of_all_fields(kind: type[Event], data: st.DataObject) -> None:
    event = kind(*[data.draw(BY_TYPE[str(spec.type)], spec.name) for spec in fields(kind)])
    assert WRITERS[kind](event).encode() == dumps(told(event))
