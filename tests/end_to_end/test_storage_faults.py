"""The records' disk fails under the running server: new work is refused by name, what was accepted goes on, nothing is lost."""

from __future__ import annotations

import contextlib
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path
from statistics import median

import pytest
from live_server import LiveServer, wait_until
from plain_client import Call, at_rest, ledger, row_once, rows

HARDWARE = ("--runner", "simulated", "--hardware", "h100-llama-3.1-8b-tp1-bf16")
_names = count()


@contextlib.contextmanager
def locked(server: LiveServer) -> Iterator[None]:
    """Another process of the machine holds the database's write lock."""
    rival = sqlite3.connect(server.data_dir / "batchscope.db", isolation_level=None, timeout=30, check_same_thread=False)
    rival.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        rival.execute("ROLLBACK")
        rival.close()


PAGE = 4096


@contextlib.contextmanager
def no_room(server: LiveServer) -> Iterator[None]:
    """The web process may write only the first page of a file: neither the log of the records nor their file has room.

    A limit at the log's present size would not do: a checkpoint lets the log begin anew, and there is room again.
    """
    pid = server.process.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (PAGE, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))


def refused(server: LiveServer, code: str) -> None:
    """A new request is answered 503 with `code` and when to come back."""
    call = Call(server, f"refused-{next(_names)}", streamed=False).over()
    assert (call.status, call.error) == (503, code), call.data
    assert 1 <= int(call.header("Retry-After") or 0) <= 60


def refused_soon(server: LiveServer, code: str) -> None:
    """The same, once the fault has been met: what came before is answered either way, and never hangs."""

    def asked() -> bool:
        call = Call(server, f"refused-{next(_names)}", streamed=False).over()
        assert call.status in (200, 503), call.data
        return call.error == code

    wait_until(asked)
    refused(server, code)


def streams_on(call: Call) -> None:
    """More text comes than there was."""
    before = call.data.count(b'"text"')
    call.until(lambda data: data.count(b'"text"') > before + 20)


def is_ready(server: LiveServer) -> bool:
    try:
        return bool(server.get("/readyz")["status"] == "ready")
    except OSError:
        return False


def test_a_lock_of_a_second_only_delays(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d", *HARDWARE) as server:
        with locked(server):
            call = Call(server, "patient", streamed=False)
            assert not call.ended.wait(0.8), "no byte leaves before its row is durable"
        assert call.over().status == 200
        at_rest(server)
        ledger(server.data_dir).check()


def test_a_long_lock_refuses_new_work_and_loses_nothing(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d", *HARDWARE) as server:
        running = Call(server, "running", max_tokens=20_000).until(lambda data: b'"text"' in data)
        short = Call(server, "short", max_tokens=300).until(lambda data: b'"text"' in data)
        row_once(server, "short", lambda row: row["state"] == "running")  # tokens leave before the rows that tell of them
        with locked(server):
            refused_soon(server, "storage_busy")
            streams_on(running)
            assert short.over().error is None, "what was accepted is served to its end"
            assert not is_ready(server)
            assert rows(server)["short"]["state"] == "running", "readers go on, with what was written"
        wait_until(lambda: is_ready(server))
        streams_on(running)
        assert Call(server, "next").over().error is None
        running.hang_up()
        at_rest(server)
        found = rows(server)
        assert found["short"]["finish"] == "length" and found["running"]["detail"] == "client_gone"
        assert [name for name in found if name.startswith("refused")] == [], "never accepted: never recorded"
        ledger(server.data_dir).check()


def test_a_full_disk_refuses_before_accepting_and_recovers_alone(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d", *HARDWARE) as server:
        running = Call(server, "running", max_tokens=20_000).until(lambda data: b'"text"' in data)
        short = Call(server, "short", max_tokens=300).until(lambda data: b'"text"' in data)
        with no_room(server):
            refused_soon(server, "storage_full")
            streams_on(running)
            assert short.over().error is None
            assert not is_ready(server)
            refused(server, "storage_full")
        wait_until(lambda: is_ready(server))
        assert Call(server, "next").over().error is None
        running.hang_up()
        at_rest(server)
        found = rows(server)
        assert found["short"]["finish"] == "length" and found["running"]["detail"] == "client_gone"
        ledger(server.data_dir).check()
        assert server.get("/livez")["status"] == "ok" and "Traceback" not in server.text_of_log()


def test_control_calls_that_need_the_records_say_so_too(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "d", *HARDWARE) as server, locked(server):
        with pytest.raises(OSError) as caught:
            server.post("/api/runs", {"external": True, "name": "x"})
        assert getattr(caught.value, "code", None) == 503
        caught.value.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("how", ["removed", "replaced", "log removed"])
def test_a_database_file_that_is_taken_away_is_noticed(tmp_path: Path, how: str) -> None:
    with LiveServer(tmp_path / "d", *HARDWARE) as server:
        path = server.data_dir / ("batchscope.db-wal" if how == "log removed" else "batchscope.db")
        aside = tmp_path / "aside"
        running = Call(server, "running", max_tokens=20_000).until(lambda data: b'"text"' in data)
        path.rename(aside)
        if how == "replaced":
            shutil.copy(aside, path)
        refused_soon(server, "storage_failed")
        streams_on(running)
        assert re.search(rf"CRITICAL.*{re.escape(str(path))} was (removed|replaced)", server.text_of_log())
        assert not is_ready(server)
        aside.replace(path)
        wait_until(lambda: is_ready(server))
        assert Call(server, "next").over().error is None
        running.hang_up()
        at_rest(server)
        ledger(server.data_dir).check()


STRACE = shutil.which("strace")


def can_trace() -> bool:
    if STRACE is None:
        return False
    tried = subprocess.run([STRACE, "-o", "/dev/null", "true"], capture_output=True, check=False)
    return tried.returncode == 0


@pytest.mark.skipif(not can_trace(), reason="LOUD SKIP: no strace, or it may not trace here")
def test_a_slow_disk_makes_commits_larger_and_tokens_no_later(tmp_path: Path) -> None:
    log = tmp_path / "syncs"
    inject = "inject=fdatasync,fsync:delay_enter=150000"
    wrapper = (str(STRACE), "-D", "-f", "--seccomp-bpf", "-o", str(log), "-e", "trace=fdatasync,fsync", "-e", inject)
    with LiveServer(tmp_path / "d", *HARDWARE, wrapper=wrapper) as server:
        running = Call(server, "running", max_tokens=20_000).until(lambda data: b'"text"' in data)
        before, gaps = log.read_text().count("sync("), Arrivals(running)
        calls = [Call(server, f"c{n}", max_tokens=2) for n in range(60)]
        for call in calls:
            assert call.over().error is None
        syncs = log.read_text().count("sync(") - before
        assert syncs < 30, "sixty accepts and their ends shared the commits"
        assert gaps.median_s() < 0.1, "a token waits for a step, not for a disk"
        running.hang_up()
        at_rest(server)
        ledger(server.data_dir).check()


@pytest.mark.skipif(not can_trace(), reason="LOUD SKIP: no strace, or it may not trace here")
def test_a_sync_that_fails_now_and_then_loses_and_doubles_nothing(tmp_path: Path) -> None:
    inject = "inject=fdatasync,fsync:error=EIO:when=20+7"
    wrapper = (str(STRACE), "-D", "-f", "--seccomp-bpf", "-o", "/dev/null", "-e", "trace=fdatasync,fsync", "-e", inject)
    with LiveServer(tmp_path / "d", *HARDWARE, wrapper=wrapper) as server:
        served = set()
        for first in range(0, 60, 6):
            calls = [Call(server, f"c{n}", max_tokens=3, streamed=n % 2 == 0) for n in range(first, first + 6)]
            for call in calls:
                assert call.over().status in (200, 503), call.data
                if call.status == 200:
                    assert call.error is None
                    served.add(call.name)
        at_rest(server)
        assert len(served) > 30 and {name for name, row in rows(server).items() if row["finish"] == "length"} == served
        assert re.search(r"records_errors(\{.*\})? [1-9]", metrics(server)), "faults were met"
        ledger(server.data_dir).check()


def metrics(server: LiveServer) -> str:
    with urllib.request.urlopen(server.url + "/metrics", timeout=10) as response:
        return str(response.read().decode())


class Arrivals(threading.Thread):
    """When the bytes of a stream came."""

    def __init__(self, call: Call) -> None:
        super().__init__(daemon=True)
        self.call = call
        self.stopped = threading.Event()
        self.at: list[float] = []
        self.start()

    def run(self) -> None:
        clock, seen = threading.Event(), len(self.call.data)
        elapsed = 0.0
        while not self.stopped.is_set():
            clock.wait(0.002)
            elapsed += 0.002
            if len(self.call.data) != seen:
                seen = len(self.call.data)
                self.at.append(elapsed)

    def median_s(self) -> float:
        self.stopped.set()
        self.join(5)
        return median(later - sooner for sooner, later in pairwise(self.at))


# ---- at a start


def start(data_dir: Path, *arguments: str) -> tuple[int, str]:
    """A start that is refused: its exit code and its one line."""
    command = [sys.executable, "-m", "app.serve", "--runner", "null", "--port", "0", "--data-dir", str(data_dir), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=Path(__file__).parents[2])
    said = done.stderr.strip()
    assert "\n" not in said and "Traceback" not in said, said
    return done.returncode, said


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a server that has served and ended in order."""
    made = tmp_path_factory.mktemp("sound") / "d"
    with LiveServer(made, "--runner", "null") as server:
        for n in range(20):
            Call(server, f"c{n}").over()
        assert server.stop() == 0
    return made


def harm(data: bytes, how: str) -> bytes:
    page = 4096
    return {
        "first page": b"\xff" * 200 + data[200:],
        "schema": data[:100] + b"\xff" * 300 + data[400:],
        "middle": data[: 6 * page] + b"\xff" * (4 * page) + data[10 * page :],
        "cut short": data[: len(data) // 2],
        "no database": b"not a database at all\n" * 1000,
    }[how]


@pytest.mark.parametrize("how", ["first page", "schema", "middle", "cut short", "no database"])
def test_a_damaged_database_is_refused_and_left_as_it_is(sound: Path, tmp_path: Path, how: str) -> None:
    shutil.copytree(sound, tmp_path / "d")
    path = tmp_path / "d" / "batchscope.db"
    data = harm(path.read_bytes(), how)
    path.write_bytes(data)
    code, said = start(tmp_path / "d")
    assert (code, str(path) in said) == (4, True), said
    assert path.read_bytes() == data and not (tmp_path / "d" / "server.json").exists()


def test_a_newer_database_is_refused_and_left_as_it_is(sound: Path, tmp_path: Path) -> None:
    shutil.copytree(sound, tmp_path / "d")
    path = tmp_path / "d" / "batchscope.db"
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    data = path.read_bytes()
    code, said = start(tmp_path / "d")
    assert code == 3 and "9999" in said and "newer" in said
    assert path.read_bytes() == data


def test_a_database_that_somebody_holds_at_a_start_is_said_so(sound: Path, tmp_path: Path) -> None:
    shutil.copytree(sound, tmp_path / "d")
    path = tmp_path / "d" / "batchscope.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as rival:
        rival.execute("BEGIN IMMEDIATE")
        code, said = start(tmp_path / "d")
    assert code == 2 and f"{path} is locked" in said


def test_a_database_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "d" / "batchscope.db").mkdir(parents=True)
    code, said = start(tmp_path / "d")
    assert code == 2 and str(tmp_path / "d" / "batchscope.db") in said
