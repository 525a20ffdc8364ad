"""Acknowledged is durable, in order, once; nothing is lost in silence; a crash leaves no request open."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from records import MS, Records, make_bench, make_row, make_writer, only_postgresql, only_sqlite, some_requests
from sqlalchemy import delete, insert, select
from web_builders import step

from app.store import database, postgresql, soundness
from app.store import writer as writer_module
from app.store.errors import StoreBusy, StoreFailed, StoreFull, StoreLocked, StoreLost
from app.store.life_numbers import AHEAD
from app.store.models import metadata, requests, runs
from scheduler.core.events import Parts, RequestFinished, RequestQueued, StepCompleted
from scheduler.core.request import NO_WAITS, FinishReason, WaitReason


def finished(boot: int, seq: int, id: str, reason: FinishReason = FinishReason.STOP) -> RequestFinished:
    return RequestFinished(boot, seq, seq, 0, id, -1, reason, None, 3, 0, 2, 0, Parts(NO_WAITS, 0, 0, 0, 0))


def queued(boot: int, seq: int, id: str) -> RequestQueued:
    return RequestQueued(boot, seq, 0, id, 0, 3, 4, "t", "k", 0, None, None)


@contextmanager
def hold(records: Records) -> Iterator[None]:
    """The write lock, in another process's name."""
    if not database.is_sqlite(records.url):
        with psycopg.connect(records.url) as server, server.transaction(force_rollback=True):
            server.execute(f"LOCK TABLE {', '.join(metadata.tables)} IN EXCLUSIVE MODE")
            yield
        return
    rival = sqlite3.connect(records.path, isolation_level=None)
    rival.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        rival.execute("ROLLBACK")
        rival.close()


def wait_at_most(records: Records, ms: int) -> None:
    """Locks are waited for no longer, by this connection of the writer."""
    known = "PRAGMA busy_timeout = {}" if database.is_sqlite(records.url) else "SET lock_timeout = {}"
    records.job(lambda connection: connection.exec_driver_sql(known.format(ms)) and None)


def impatient(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, by each connection that is opened from here on too."""
    monkeypatch.setattr(database, "_COMMON", ("PRAGMA busy_timeout=1",))
    monkeypatch.setattr(postgresql, "LOCK_TIMEOUT_MS", 50)  # in which the lock of the connection before is free again
    wait_at_most(records, 1)


def wait_for(question: Callable[[], Any]) -> None:
    end = time.monotonic() + 20
    while not question():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.001)


def test_an_accept_is_answered_after_its_commit(records: Records) -> None:
    seen: list[int] = []
    records.writer.accept(make_row("a"), lambda error: seen.append(records.sql("SELECT count(*) FROM requests")[0][0]))
    records.flush()
    assert seen == [1]


@only_sqlite
def test_the_connection_is_wal_and_fully_synchronous(records: Records) -> None:
    def pragmas(connection: Any) -> tuple[Any, ...]:
        return tuple(connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous"))

    assert records.job(pragmas) == ("wal", 2)


def test_an_id_that_is_there_already_fails_alone(records: Records) -> None:
    records.accept(make_row("a"))
    answers: dict[str, Exception | None] = {}
    gate = threading.Event()
    records.writer.job(lambda connection: gate.wait(10), lambda result, error: None)  # so that the three share a commit
    for id in ("b", "a", "c"):
        records.writer.accept(make_row(id, 5), lambda error, id=id: answers.update({id: error}))
    gate.set()
    records.flush()
    assert answers["b"] is None and answers["c"] is None
    assert isinstance(answers["a"], StoreFailed)
    assert records.sql("SELECT count(*) FROM requests") == [(3,)]
    assert records.writer.stats().errors == 2 and "IntegrityError" in str(records.writer.stats().last_error)


def test_a_row_that_cannot_be_stored_is_counted_and_takes_no_neighbour_along(records: Records) -> None:
    records.accept(make_row("a"))
    queued = RequestQueued(7, 1, 0, "a", 0, 3, 4, "t\ud800", "interactive", 0, None, None)  # half a character
    records.write([queued, finished(7, 2, "a")])
    assert records.sql("SELECT state FROM requests") == [("finished",)]
    stats = records.writer.stats()
    assert stats.lost == 1 and stats.pending == 0 and stats.last_error


def test_a_nul_in_a_text_is_no_reason_to_refuse_it(records: Records) -> None:
    records.accept(make_row("a", prompt_text="x\0y", ignored_fields=("x\0",)))
    assert records.answers == [None]
    kept = "\0" if database.is_sqlite(records.url) else "\ufffd"
    assert records.queries.ask(lambda connection: connection.execute(select(requests.c.prompt_text)).scalar()) == f"x{kept}y"
    assert records.queries.requests({})["items"][0]["ignored_fields"] == ["x\0"]


@only_postgresql
@pytest.mark.parametrize(("state", "kind"), [("53100", StoreFull), ("55P03", StoreLocked), ("57P01", StoreFailed)])
def test_what_a_server_refuses_is_said_by_its_kind(records: Records, state: str, kind: type, monkeypatch: Any) -> None:
    monkeypatch.setattr(writer_module, "RETRY_S", 0.01)
    records.accept(make_row("a"))
    records.sql(
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = '{state}'; END $$"
    )
    records.sql("CREATE TRIGGER no BEFORE INSERT ON requests FOR EACH ROW EXECUTE FUNCTION no()")
    try:
        records.accept(make_row("b"))
        assert type(records.answers[-1]) is kind and "not now" in str(records.answers[-1])
    finally:
        records.sql("DROP FUNCTION no CASCADE")
    records.accept(make_row("b"))
    assert records.answers[-1] is None and records.writer.trouble is None


def test_a_second_terminal_event_does_nothing_and_is_counted(records: Records) -> None:
    records.accept(make_row("a"))
    records.write([finished(3, 1, "a")])
    records.write([finished(4, 1, "a", FinishReason.ERROR)])
    assert records.sql("SELECT boot, data ->> 'reason' FROM request_events WHERE terminal") == [(3, "stop")]
    assert records.sql("SELECT finish FROM requests") == [("stop",)]
    assert records.writer.stats().terminal_duplicates == 1


def test_the_database_itself_refuses_a_second_terminal_row(records: Records) -> None:
    line = (
        "INSERT INTO request_events (boot, seq, request_id, sequence_id, kind, at, terminal) VALUES (1, ?, 'a', ?, 'x', 0, ?)"
    )
    for values in ((1, "a/0", True), (2, "a/1", True), (3, "a/0", False)):
        records.sql(line, *values)
    with pytest.raises((sqlite3.IntegrityError, psycopg.IntegrityError), match="(?i)unique constraint"):
        records.sql(line, 4, "a/0", True)


def test_a_lock_held_elsewhere_fails_accepts_and_keeps_events(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "RETRY_S", 0.01)
    impatient(records, monkeypatch)
    records.accept(make_row("a"))
    with hold(records):
        answered = threading.Event()
        records.writer.events([finished(3, 1, "a")])
        records.writer.accept(make_row("b"), lambda error: (records.answers.append(error), answered.set()))
        assert answered.wait(20)
        assert isinstance(records.answers[-1], StoreFailed)
        assert records.writer.failing
    records.accept(make_row("c"))
    assert records.answers[-1] is None
    assert records.sql("SELECT state FROM requests ORDER BY id") == [("finished",), ("waiting",)]
    assert not records.writer.failing


def test_a_lock_is_waited_for_once_and_not_more_often_because_events_come(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "RETRY_S", 0.2)
    impatient(records, monkeypatch)
    records.accept(make_row("a"))
    with hold(records):
        end = time.monotonic() + 1.0
        seq = 0
        while time.monotonic() < end:
            seq += 1
            records.writer.events([step(seq)])
            time.sleep(0.001)
        assert records.writer.failing and isinstance(records.writer.trouble, StoreLocked)
        tries = records.writer.stats().errors
    assert 1 <= tries <= 8
    records.flush()
    assert records.sql("SELECT count(*) FROM steps") == [(seq,)] and records.writer.trouble is None


def test_who_came_during_a_long_vain_try_does_not_wait_for_another(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "PATIENCE_S", 0.2)
    wait_at_most(records, 500)
    records.accept(make_row("a"))
    answers: dict[str, Exception | None] = {}
    with hold(records):
        records.writer.events([finished(3, 1, "a")])
        wait_for(lambda: not records.writer.stats().events)
        for id in ("b", "c"):
            records.writer.accept(make_row(id), lambda error, id=id: answers.update({id: error}))
        wait_for(lambda: len(answers) == 2)
        assert {type(error) for error in answers.values()} == {StoreLocked}
        records.writer.events([queued(3, 2, "b"), finished(3, 3, "b")])
    records.flush()
    assert records.sql("SELECT id, state FROM requests") == [("a", "finished")]
    assert records.sql("SELECT DISTINCT request_id FROM request_events") == [("a",)], "of what was refused nothing is kept"


@only_sqlite
def test_a_full_disk_fails_accepts_and_keeps_events(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "RETRY_S", 0.01)
    records.accept(make_row("a"))
    (pages,) = records.sql("PRAGMA page_count")[0]
    monkeypatch.setattr(database, "_WRITING", (*database._WRITING, f"PRAGMA max_page_count={pages}"))
    records.job(lambda connection: connection.exec_driver_sql(f"PRAGMA max_page_count={pages}") and None)
    answers: list[Exception | None] = []
    for n in range(400):
        records.writer.accept(make_row(f"b{n}", prompt_text="x" * 2000), answers.append)
    records.writer.events([finished(3, 1, "a")])
    wait_for(lambda: len(answers) == 400)
    refused = [error for error in answers if error is not None]
    assert refused and {type(error) for error in refused} == {StoreFull}
    stored = records.sql("SELECT count(*) FROM requests")[0][0]
    assert stored == 1 + len(answers) - len(refused), "answered None: durable; answered with an error: not there"
    monkeypatch.undo()
    records.job(lambda connection: connection.exec_driver_sql("PRAGMA max_page_count=1000000") and None)
    records.flush()
    assert records.sql("SELECT state FROM requests WHERE id = 'a'") == [("finished",)]
    records.accept(make_row("c"))
    assert records.answers[-1] is None and records.writer.trouble is None


@only_sqlite
def test_a_file_that_is_taken_away_stops_accepting_until_it_is_back(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "LOOK_S", 0.01)
    records.accept(make_row("a"))
    aside = records.path.with_suffix(".aside")
    records.path.rename(aside)
    wait_for(lambda: isinstance(records.writer.trouble, StoreLost))
    records.writer._scribe.hang_up()
    records.writer.accept(make_row("b"), records.answers.append)
    wait_for(lambda: len(records.answers) == 2)
    assert isinstance(records.answers[-1], StoreLost) and not records.path.exists(), "no empty file in its place"
    aside.rename(records.path)
    wait_for(lambda: records.writer.trouble is None)
    records.accept(make_row("c"))
    assert records.answers[-1] is None
    assert records.sql("SELECT id FROM requests ORDER BY id") == [("a",), ("c",)]


def test_a_job_that_meets_a_lock_says_so(records: Records) -> None:
    wait_at_most(records, 1)
    with hold(records), pytest.raises(StoreLocked):
        records.job(lambda connection: connection.execute(delete(runs)) and None)


def test_over_its_bound_the_backlog_refuses_new_requests(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "MAX_BACKLOG", -1)
    records.writer.accept(make_row("a"), records.answers.append)
    assert isinstance(records.answers[0], StoreBusy)
    monkeypatch.undo()
    records.accept(make_row("a"))
    assert records.answers[1] is None


def test_a_generator_is_one_transaction_a_step_and_others_go_between(records: Records) -> None:
    seen: list[int] = []

    def slices(connection: Any) -> Iterator[None]:
        for n in range(3):
            connection.execute(insert(runs), [{"id": f"run{n}", "status": "finished", "created_wall": n, "external": False}])
            yield
            seen.append(records.sql("SELECT count(*) FROM runs")[0][0])
            records.writer.accept(make_row(f"a{n}"), records.answers.append)
        connection.execute(insert(runs), [{"id": "last", "status": "finished", "created_wall": 9, "external": False}])
        return "done"

    assert records.job(slices) == "done"
    assert seen == [1, 2, 3]
    assert records.sql("SELECT count(*) FROM runs") == [(4,)]
    assert records.answers[:2] == [None, None]


def test_a_job_that_fails_changes_nothing_and_says_why(records: Records) -> None:
    def work(connection: Any) -> None:
        connection.execute(insert(runs), [{"id": "x", "status": "finished", "created_wall": 0, "external": False}])
        raise LookupError("no")

    with pytest.raises(LookupError):
        records.job(work)
    assert records.sql("SELECT count(*) FROM runs") == [(0,)]


def test_close_writes_what_is_there_and_takes_no_more(url: str) -> None:
    records = Records(url=url)
    for n in range(500):
        records.writer.accept(make_row(f"a{n}"), records.answers.append)
    records.writer.events([finished(3, 1, "a0")])
    records.close()
    assert records.answers == [None] * 500
    assert records.sql("SELECT count(*) FROM request_events") == [(1,)]
    records.writer.accept(make_row("late"), records.answers.append)
    assert isinstance(records.answers[-1], StoreBusy)


def test_at_a_start_open_requests_end_as_web_crash(url: str) -> None:
    records = Records(url=url)
    records.play(make_bench(2), some_requests(2))
    records.accept(make_row("open", sequences=2), make_row("other"))
    records.write([RequestQueued(2, 900, 0, "open/0", 0, 3, 4, "t", "k", 0, None, None), finished(2, 901, "open/0")])
    records.job(
        lambda connection: connection.execute(insert(runs), [{"id": "x", "status": "running", "created_wall": 0}]) and None
    )
    records.close()
    first = records.writer.web_boot
    records.start()
    assert records.writer.web_boot > max(first, 2)
    assert records.sql("SELECT count(*) FROM requests WHERE state <> 'finished'") == [(0,)]
    found = records.sql("SELECT finish, detail, finished_at, e2e_ms FROM requests WHERE id IN ('open', 'other')")
    assert found == [("error", "web_crash", None, None)] * 2
    ends = records.sql(
        "SELECT sequence_id, boot FROM request_events WHERE terminal AND request_id IN ('open', 'other') ORDER BY 1"
    )
    assert ends == [("open/0", 2), ("open/1", records.writer.web_boot), ("other", records.writer.web_boot)]
    assert records.sql("SELECT status, error FROM runs") == [("failed", "web_crash")]
    detail = records.queries.request("other")
    assert detail is not None and detail["finished"] is None and detail["events"][0]["t_ms"] is None
    records.close()


def test_boots_are_never_reused(url: str) -> None:
    records = Records(url=url)
    boots = [records.writer.web_boot, records.writer.next_boot()]
    records.begin_life(make_bench(boots[-1]))
    records.close()
    records.start()
    boots += [records.writer.web_boot, records.writer.next_boot()]
    records.close()
    assert boots == sorted(set(boots))


def test_a_boot_that_left_no_trace_is_not_given_again(url: str) -> None:
    first = Records(url=url)
    given = [first.writer.web_boot, first.writer.next_boot(), first.writer.next_boot()]
    first.writer._scribe.hang_up()
    second = make_writer(first.url)  # what a killed process left, while nothing of its engines was recorded
    second.start()
    assert second.web_boot > max(given) and second.next_boot() == second.web_boot + 1
    assert second.close()
    assert first.sql("SELECT count(*) FROM boots WHERE runner = 'reserved'") == [(1,)]
    first.close()


def test_after_an_orderly_end_numbers_go_on_where_they_were(url: str) -> None:
    records = Records(url=url)
    last = records.writer.next_boot()
    records.close()
    records.start()
    assert records.writer.web_boot == last + 1, "no number is left out, though its life left no trace"
    records.close()


def test_numbers_do_not_run_out_while_the_records_take_them(records: Records) -> None:
    given = []
    for _ in range(5 * AHEAD):
        given.append(records.writer.next_boot())
        records.flush()
    assert given == list(range(records.writer.web_boot + 1, records.writer.web_boot + 1 + 5 * AHEAD))


def test_while_the_records_take_nothing_a_few_lives_may_begin_and_no_number_is_given_twice(records: Records) -> None:
    wait_at_most(records, 1)
    with hold(records):
        given = [records.writer.next_boot() for _ in range(AHEAD - 1)]
        with pytest.raises(StoreBusy):
            records.writer.next_boot()
        assert len(set(given)) == AHEAD - 1
        wait_for(lambda: not records.writer.stats().jobs)
    records.flush()
    with pytest.raises(StoreBusy):
        records.writer.next_boot()  # it has asked again
    records.flush()
    assert records.writer.next_boot() == given[-1] + 1


@pytest.mark.parametrize("more", ["accept", "event", "mark", "job"])
def test_steps_wait_for_company_and_whoever_is_waited_for_does_not(
    records: Records, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    records.flush()
    monkeypatch.setattr(writer_module, "STEPS_S", 60.0)
    before = records.writer.stats().commits
    for seq in range(1, 4):
        records.writer.events([step(seq=seq)])
    wait_for(lambda: not records.writer._backlog._wake.qsize())  # type: ignore[attr-defined]  # the thread has looked
    assert records.writer.stats().commits == before and records.writer.stats().events == 3
    calls: dict[str, Callable[[], object]] = {
        "accept": lambda: records.writer.accept(make_row("a"), lambda error: None),
        "event": lambda: records.writer.events([queued(2, 9, "nobody")]),
        "mark": lambda: records.writer.after(lambda: None),
        "job": lambda: records.flush(),
    }
    calls[more]()
    wait_for(lambda: records.sql("SELECT count(*) FROM steps")[0][0] == 3)


def test_kill_9_loses_no_acknowledged_accept(url: str) -> None:
    records = Records(url=url)
    records.close()
    script = Path(__file__).parent / "accept_until_killed.py"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(["tests", "."])}
    acknowledged: set[str] = set()
    kills = (60, 230, 400, 570) if database.is_sqlite(url) else (60, 230)  # after so many answers
    for answers in kills:
        with subprocess.Popen(
            [sys.executable, str(script), records.url], stdout=subprocess.PIPE, text=True, env=environment
        ) as child:
            assert child.stdout is not None
            for _ in range(answers):
                acknowledged.add(child.stdout.readline().strip())
            child.kill()
            acknowledged |= {line.strip() for line in child.stdout if line.endswith("\n")}
    stored = {id for (id,) in records.sql("SELECT id FROM requests")}
    assert len(acknowledged) >= sum(kills)
    assert acknowledged <= stored
    assert soundness.faults(records.url) == []
    survivor = make_writer(records.url)
    survivor.start()
    assert survivor.close()
    assert records.sql("SELECT DISTINCT state, detail FROM requests") == [("finished", "web_crash")]


def test_events_of_a_forgotten_request_are_orphans_not_errors(records: Records) -> None:
    bench = make_bench(5)
    bench.add(*some_requests(1))
    records.write(bench.run_to_idle())
    stats = records.writer.stats()
    assert stats.orphans == 1 and stats.errors == 0
    assert records.sql("SELECT count(*) FROM steps")[0][0] > 0
    assert bench.clock.now > 10 * MS


def test_a_step_counts_by_its_slices_and_far_over_the_bound_its_source_should_wait(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "MAX_BACKLOG", 20)
    started, gate = threading.Event(), threading.Event()
    records.writer.job(lambda connection: (started.set(), gate.wait(10)), lambda result, error: None)
    assert started.wait(10)
    wide = StepCompleted(3, 1, 2, 1, 1, 2, 512, WaitReason.STEP, NO_WAITS, 256, 0, 9, tuple(range(256)), ())
    records.writer.events([wide])
    assert not records.writer.full, "one row, and slices for sixteen"
    records.writer.events([wide])
    assert records.writer.full and not records.writer.overflowing
    refused = make_row("refused")
    records.writer.refuse(refused, 503, "shed", 1)
    assert records.writer.stats().events == 2, "what is refused for want of room takes none"
    records.writer.events([replace(wide, seq=2)])
    assert records.writer.overflowing
    gate.set()
    records.flush()
    assert not records.writer.full and not records.writer.overflowing
