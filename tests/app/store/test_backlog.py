"""The backlog gives what was handed over in its order, never more events at once than one transaction may hold."""

from __future__ import annotations

from queue import SimpleQueue

from records import make_row
from web_builders import queued, step

from app.store.accepted import Amend
from app.store.backlog import MOST_ITEMS, Backlog, Taken
from app.store.scribe import Job

ITEMS = [Amend(f"req_{n}") for n in range(2 * MOST_ITEMS + 500)]


def make_backlog() -> Backlog:
    return Backlog(SimpleQueue())


def items_of(taken: Taken) -> list[object]:
    return [item for items, _ in taken.messages for item in items]


def test_one_message_too_long_for_a_transaction_is_taken_in_pieces_and_in_order() -> None:
    backlog = make_backlog()
    backlog.put(ITEMS, 0)
    assert backlog.rows == backlog.events == len(ITEMS)
    taken = [backlog.take() for _ in range(3)]
    assert [len(items_of(each)) for each in taken] == [MOST_ITEMS, MOST_ITEMS, 500]
    assert [item for each in taken for item in items_of(each)] == ITEMS
    assert backlog.rows == backlog.events == 0 and backlog.empty and not backlog.more


def test_messages_that_do_not_fit_together_are_taken_one_after_the_other() -> None:
    backlog = make_backlog()
    for late in range(3):
        backlog.put(ITEMS[: MOST_ITEMS * 2 // 3], late)
    assert [[late for _, late in backlog.take().messages] for _ in range(3)] == [[0], [1], [2]]


def test_jobs_and_marks_wait_for_all_events_that_were_handed_over_before_them() -> None:
    backlog = make_backlog()
    backlog.put(ITEMS, 0)
    marks = [lambda: None, lambda: None]
    for mark in marks:
        backlog.mark(mark)
    job = Job(lambda connection: None, lambda result, error: None)
    backlog.ask(job)
    first, second, third = (backlog.take() for _ in range(3))
    assert (first.job, first.marks, second.job, second.marks) == (None, [], None, [])
    assert third.job is job and third.marks == marks


def test_an_accept_waits_for_no_event_and_wakes_the_thread_once() -> None:
    wake: SimpleQueue[None] = SimpleQueue()
    backlog = Backlog(wake)
    backlog.put(ITEMS, 0)
    accepts = [(make_row(f"r{n}"), lambda error: None) for n in range(5)]
    for row, done in accepts:
        backlog.accept(row, done)
    assert wake.qsize() == 2, "one for the events, one for the accepts"
    assert backlog.take().accepts == accepts
    backlog.accept(*accepts[0])
    assert wake.qsize() == 1, "and again after the thread has looked"


def test_steps_wake_the_thread_once_and_whatever_is_more_than_a_step_once_more() -> None:
    wake: SimpleQueue[None] = SimpleQueue()
    backlog = Backlog(wake)
    for seq in range(5):
        backlog.put([step(seq)], 0)
    assert wake.qsize() == 1 and not backlog.pressing and not backlog.urgent
    for _ in range(3):
        backlog.put([step(), queued()], 0)
    assert wake.qsize() == 2 and backlog.pressing and not backlog.urgent
    backlog.take()
    assert not backlog.pressing
    backlog.mark(lambda: None)
    assert wake.qsize() == 1 and backlog.pressing


def test_steps_enough_for_a_transaction_wait_for_no_more_of_them() -> None:
    wake: SimpleQueue[None] = SimpleQueue()
    backlog = Backlog(wake)
    for seq in range(MOST_ITEMS - 1):
        backlog.put([step(seq)], 0)
    assert wake.qsize() == 1 and not backlog.urgent
    backlog.put([step()], 0)
    assert wake.qsize() == 2 and backlog.urgent
    backlog.put([step()], 0)
    assert wake.qsize() == 2
