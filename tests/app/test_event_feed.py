"""EventFeed: text first, then listeners in order; one that fails stops nobody."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from web_builders import finished, queued, step, step_done

from app.event_feed import EventFeed
from scheduler.engine.messages import Events, pack_event


def test_text_goes_out_before_any_listener_hears_of_the_step() -> None:
    said: list[Any] = []
    feed = EventFeed(lambda numbers, texts: said.append(("text", list(numbers), list(texts))), lambda: said.append("breathe"))
    feed.subscribe("one", lambda events, message: said.append(("one", events)))
    feed.subscribe("two", lambda events, message: said.append(("two", message is not None)))
    feed.take(step_done([step(), finished()], [1], ["hi"]))
    assert said == [("text", [1], ["hi"]), ("one", [step(), finished()]), ("two", True), "breathe"]


def test_events_outside_a_step_come_without_one() -> None:
    said: list[Any] = []
    feed = EventFeed(lambda numbers, texts: said.append("text"), lambda: said.append("breathe"))
    feed.subscribe("one", lambda events, message: said.append((events, message)))
    feed.take(Events([pack_event(queued())]))
    assert said == [([queued()], None)]


def test_a_listener_that_fails_is_counted_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    said: list[Any] = []
    feed = EventFeed(lambda numbers, texts: None, lambda: None)

    def broken(events: Any, message: Any) -> None:
        raise RuntimeError("a bug")

    feed.subscribe("broken", broken)
    feed.subscribe("sound", lambda events, message: said.append(events))
    with caplog.at_level(logging.ERROR):
        feed.take(step_done([step()]))
    assert said == [[step()]] and feed.failures == {"broken": 1} and "a bug" in caplog.text


def test_while_the_records_are_behind_the_next_message_stays_unread() -> None:
    behind, said = [False, True, True, False, True, False], list[str]()
    feed = EventFeed(
        lambda numbers, texts: None,
        lambda: said.append("breathe"),
        behind=lambda: behind.pop(0),
        rest=lambda: said.append("rest"),
    )
    for _ in range(3):
        feed.take(step_done([step()]))
    assert said == ["breathe", "breathe", "rest", "rest", "breathe", "rest"] and not behind
