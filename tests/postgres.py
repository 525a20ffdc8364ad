"""A real PostgreSQL for tests: Debian's package, a cluster of its own in a temporary folder, ended by its pid.

The server refuses to run as root, so root runs it as `postgres`. Its databases sort by ICU's en-US: nothing of ours may
lean on the order of bytes. fsync is on, as it is where people keep their records.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.string import TextLoader

from app.store import migrate
from app.store.models import metadata

HOW = "no PostgreSQL server here; on Debian: apt-get install postgresql (`make install` does it)"
USER, READY_S = "batchscope", 30.0
_INIT = ("--auth=trust", "--no-sync", "--no-instructions", "--encoding=UTF8", "--locale=C.UTF-8")
_ORDER = ("--locale-provider=icu", "--icu-locale=en-US")
_SMALL = ("shared_buffers=16MB", "max_wal_size=64MB", "autovacuum=off", "listen_addresses=127.0.0.1")


def binaries() -> Path | None:
    """Where `initdb` and `postgres` are; None where they are not."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).resolve().parent if on_path else None


class Cluster:
    """A server on a free port of loopback and a socket in its folder; a context manager. May be killed and started again."""

    def __init__(self) -> None:
        where = binaries()
        assert where is not None, HOW
        self._binaries = where
        self._folder = Path(tempfile.mkdtemp(prefix="pg-", dir=_place()))  # pytest's own folders are closed to other users
        self._who: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            self._who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(self._folder, user.pw_uid, user.pw_gid)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()

    def __enter__(self) -> Cluster:
        try:
            self._run("initdb", "-D", str(self._folder / "data"), "-U", USER, *_INIT, *_ORDER)
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self.kill()  # at once: nothing of it is kept
        shutil.rmtree(self._folder)

    def start(self) -> None:
        """Serve, and return once it answers."""
        command = [
            str(self._binaries / "postgres"),
            "-D",
            str(self._folder / "data"),
            "-k",
            str(self._folder),
            "-p",
            str(self.port),
        ]
        for setting in _SMALL:
            command += ["-c", setting]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd="/", stdout=log, stderr=log, **self._who)
        end = time.monotonic() + READY_S
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < end, (self._folder / "log").read_text()
            time.sleep(0.01)

    def kill(self) -> None:
        """End it at once, as in a crash."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(READY_S)
            self._process = None

    def url(self, name: str) -> str:
        """Of a database, by TCP."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{name}"

    def make(self, name: str, template: str = "template0") -> str:
        """A new database; its URL."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template)))
        return self.url(name)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, program: str, *words: str) -> None:
        command = [str(self._binaries / program), *words]
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, **self._who)
        assert done.returncode == 0, done.stdout + done.stderr


class Databases:
    """Databases at this code's schema, empty when taken; what was given back is taken again."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._free: list[str] = []
        self._template = ""
        self._bare = ""
        self._made = 0

    @contextmanager
    def current(self) -> Iterator[str]:
        """The URL of an empty database at this code's schema."""
        url = self._free.pop() if self._free else self._new()
        yield url
        empty(url)
        self._free.append(url)

    @contextmanager
    def bare(self) -> Iterator[str]:
        """The URL of a database without any table."""
        self._bare = self._bare or self._cluster.make("bare")
        yield self._bare
        with _alone(self._bare) as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")

    def _new(self) -> str:
        if not self._template:
            self._template = "current"
            migrate.upgrade(self._cluster.make(self._template))
        self._made += 1
        return self._cluster.make(f"records{self._made}", self._template)


def empty(url: str) -> None:
    """Every row gone, and everybody who may still be connected."""
    with _alone(url) as connection:
        connection.execute("; ".join(f"DELETE FROM {table}" for table in metadata.tables))


@contextmanager
def _alone(url: str) -> Iterator[Any]:
    """A connection after whose opening nobody else has one; a transaction."""
    with psycopg.connect(url) as connection:
        others = "datname = current_database() AND pid <> pg_backend_pid()"
        connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
        yield connection


def rows(url: str, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Look, or meddle, with another connection; JSON as its text. `?` marks a value."""
    with psycopg.connect(url) as connection:
        connection.adapters.register_loader("json", TextLoader)
        said: Any = statement.replace("%", "%%").replace("?", "%s") if values else statement
        cursor = connection.execute(said, values or None)
        return cursor.fetchall() if cursor.description else []


def _place() -> str:
    """In memory where there is room: the server says fsync as ever, and nobody else's disk is waited for."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() and shutil.disk_usage(memory).free > 1 << 30 else "/tmp"


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
