"""A copy is whole, checked, and of one instant, however much is written meanwhile; what a check says is so."""

from __future__ import annotations

import sqlite3
import threading
import time
from itertools import count
from pathlib import Path

import pytest
from live_server import wait_until
from records import MS, Records, make_bench, make_row, only_sqlite, some_requests

from app.store import backup, consistency, database, soundness
from app.store.backup import back_up
from app.store.errors import StoreError

pytestmark = only_sqlite


def found(records: Records) -> dict[str, int]:
    return {each.question.name: each.rows for each in consistency.findings(database.reading(records.url))}


@pytest.fixture
def lived(records: Records) -> Records:
    """Records of an engine life with some requests, one of which ended badly and one never reached the engine."""
    records.play(make_bench(3, blocks=24), some_requests(9, prompt=20, max_tokens=12))
    records.accept(make_row("rejected", sequences=3))
    records.writer.end("rejected", "rejected", "queue_full", 6 * MS)
    records.flush()
    return records


def test_sound_records_have_no_findings_and_all_tables_are_counted(lived: Records) -> None:
    assert found(lived) == {} and soundness.faults(lived.url) == soundness.quick(lived.url) == []
    assert consistency.sizes(database.reading(lived.url))["requests"] == 10


@pytest.mark.parametrize(
    ("damage", "name", "rows"),
    [
        ("DELETE FROM request_events WHERE terminal AND request_id = 'r2'", "ends", 1),
        ("DELETE FROM request_events WHERE terminal AND sequence_id = 'rejected/1'", "ends", 1),
        ("UPDATE requests SET decode_ns = decode_ns + 1 WHERE id IN ('r1', 'r2')", "parts", 2),
        ("DELETE FROM steps WHERE step = 4", "steps", 1),
        ("DELETE FROM requests WHERE id = 'r3'", "events_of_nobody", None),
        ("UPDATE requests SET run = 'nobody' WHERE id = 'r3'", "runs_of_nobody", 1),
        ("INSERT INTO client_requests (run, client_request_id, status) VALUES ('nobody', 'x', 'ok')", "clients_of_nobody", 1),
    ],
)
def test_what_does_not_agree_is_named_and_counted(lived: Records, damage: str, name: str, rows: int | None) -> None:
    lived.sql(damage)
    assert list(found(lived)) == [name] and (rows is None or found(lived) == {name: rows})
    for each in consistency.findings(database.reading(lived.url)):
        assert each.sentence.startswith(f"{each.rows} ") and each.question.mend


def test_steps_that_retention_took_are_no_gap(lived: Records) -> None:
    lived.sql("DELETE FROM steps WHERE step IN (2, 3)")
    assert found(lived) == {"steps": 1}
    lived.sql("INSERT INTO purges SELECT '2026-11-30', 'retention', max(ended_wall), 0 FROM steps WHERE step = 4")
    assert found(lived) == {}


def test_a_copy_holds_what_was_there_and_is_never_written_over(lived: Records, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    copy = back_up(lived.url, target)
    assert (copy.requests, copy.faults, copy.bytes) == (10, [], target.stat().st_size)
    assert list(tmp_path.glob("copy.db*")) == [target]
    with pytest.raises(StoreError, match="not written over"):
        back_up(lived.url, target)
    assert target.stat().st_size == copy.bytes


def test_a_copy_that_is_interrupted_leaves_nothing(lived: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "_OPERATIONS", 10)

    def stop(done: int, of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(StoreError, match="interrupted"):
        back_up(lived.url, tmp_path / "copy.db", stop)
    assert not list(tmp_path.glob("copy.db*"))
    seen: list[int] = []
    back_up(lived.url, tmp_path / "copy.db", lambda done, of: seen.append(of))
    assert seen and seen[0] > 0


def test_without_room_nothing_is_begun(lived: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 100})())
    with pytest.raises(StoreError, match="100 bytes free"):
        back_up(lived.url, tmp_path / "copy.db")
    assert not list(tmp_path.glob("copy.db*"))


@pytest.mark.usefixtures("backend")
def test_a_database_server_is_backed_up_by_its_own_tool(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="pg_dump"):
        back_up("postgresql://somewhere/records", tmp_path / "copy.db")


def test_a_copy_under_load_is_a_prefix_and_every_accept_is_answered(records: Records, tmp_path: Path) -> None:
    names, over = count(), threading.Event()

    def load() -> None:
        while not over.is_set():
            rows = [make_row(f"q{next(names):06}", received_at=n) for n in range(20)]
            records.accept(*rows)
            for row in rows[:10]:
                records.writer.end(row.id, "abort", "operator", 5 * MS)
            time.sleep(0)

    thread = threading.Thread(target=load)
    thread.start()
    try:
        wait_until(lambda: records.answers)
        copies = [back_up(records.url, tmp_path / f"{n}.db") for n in range(4)]
    finally:
        over.set()
        thread.join()
    records.flush()
    assert set(records.answers) == {None}
    for copy in copies:
        assert copy.faults == []
        with sqlite3.connect(copy.path) as connection:
            ids = [row[0] for row in connection.execute("SELECT id FROM requests ORDER BY rowid")]
        connection.close()
        assert ids == [f"q{n:06}" for n in range(len(ids))], "accepts are committed in order: a prefix of them"
    assert [copy.requests for copy in copies] == sorted(copy.requests for copy in copies)
    assert copies[0].requests > 0 and copies[-1].requests < next(names)
