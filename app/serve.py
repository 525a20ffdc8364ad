"""`python -m app.serve`: patch, read the settings, hold the data directory, serve until told to stop.

Exit codes: 0 stopped in order, 1 the engine could not start, 2 settings, port or directory, 3 a database of another version,
4 a damaged database, 6 another server holds the data directory, 130 interrupted before it served. Invariants: nothing that
could be patched is imported before the first statement; a start that is refused leaves nothing behind that was not there.
"""

from gevent import monkey

monkey.patch_all()

import signal  # noqa: E402

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # of the imports, which take seconds, an interrupt needs no traceback

import fcntl  # noqa: E402
import gc  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from contextlib import contextmanager  # noqa: E402
from pathlib import Path  # noqa: E402

import gevent  # noqa: E402
from gevent.event import Event  # noqa: E402

from app import log_lines, opening, wiring  # noqa: E402
from app import settings as server_settings  # noqa: E402
from app.announcements import announcements  # noqa: E402
from app.known_names import check_names  # noqa: E402
from app.settings import ServerSettings  # noqa: E402
from scheduler.errors import BatchscopeError, in_words  # noqa: E402

SWITCH_S = 0.0005  # Python's own 5 ms are too long: a native thread waits so long for each turn beside a busy hub, and the
# writer needs one for each statement, since SQLite lets the interpreter go while it works
YOUNG = 20_000  # new objects between two looks of the collector at them: a transaction's rows are gone by themselves before
HASTE_S = 1.0  # what a second signal leaves to all that is to be told and written
LOOK_S = 0.2  # how often the main loop looks at the engine
OK, FAILED, USAGE, SCHEMA, DAMAGED, HELD, INTERRUPTED = 0, 1, 2, 3, 4, 6, 130


class Stop(Exception):
    """The server cannot go on; `code` is the exit code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def main(argv: list[str]) -> int:
    """Serve; the exit code."""
    log_lines.install()
    try:
        settings = server_settings.load(argv, os.environ)
        check_names(settings)
        with data_directory(settings.directory) as directory, listening(settings) as listener:
            return serve(settings, directory, listener)
    except Stop as stop:
        return _say(stop.code, str(stop))
    except opening.AnotherVersion as error:
        return _say(SCHEMA, error.message)
    except opening.Damaged as error:
        return _say(DAMAGED, error.message)
    except BatchscopeError as error:
        return _say(USAGE, error.message)
    except KeyboardInterrupt:
        return _say(INTERRUPTED, "interrupted")


def serve(settings: ServerSettings, directory: Path, listener: socket.socket) -> int:
    """Run until a signal or the engine's failure to start. It listens at once, and says that it serves when the engine does."""
    try:
        server = wiring.Server(settings, listener)
        server.start()
        sys.setswitchinterval(SWITCH_S)
        gc.freeze()  # what was imported stays: collections need not look at it again
        gc.set_threshold(YOUNG)
    except (OSError, ValueError) as error:
        raise Stop(USAGE, f"cannot start: {error}") from error
    told = directory / "server.json"
    told.write_text(json.dumps({"url": server.url, "pid": os.getpid()}))
    try:
        return _wait(server)
    finally:
        told.unlink(missing_ok=True)


@contextmanager
def data_directory(directory: Path) -> Iterator[Path]:
    """The directory, ours alone (0700) and locked for this process's life; removed again if it was made and stayed empty."""
    made = [path for path in (directory, *directory.parents) if not path.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o700)
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Stop(USAGE, f"cannot use the data directory {directory}: {in_words(error)}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Stop(HELD, f"another server holds {directory}: {_holder(directory)}; give this one another --data-dir") from None
    try:
        yield directory
    finally:
        _sweep(directory, made)
        os.close(lock)


@contextmanager
def listening(settings: ServerSettings) -> Iterator[socket.socket]:
    """A socket with the address, taken; it listens once there is something to say."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        where = f"{settings.host} port {settings.port}"
        raise Stop(USAGE, f"cannot listen on {where}: {in_words(error)}; choose another with --port") from error
    with listener:
        yield listener


def _wait(server: wiring.Server) -> int:
    """Until a signal: then stop in order. A second one ends what runs and gives the rest a second; a third, not even that."""
    asked = Event()
    count = 0

    def on_signal() -> None:
        nonlocal count
        count += 1
        if count == 2:
            gevent.spawn_later(HASTE_S, leave)
            server.end_all(HASTE_S / 3)
        elif count > 2:
            leave()
        asked.set()

    def leave() -> None:
        server.engine.kill()
        os._exit(FAILED)

    watchers = [gevent.signal_handler(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)]
    lines = announcements(server.url, server.settings.model_settings, lambda: server.engine.status.state)
    while not asked.wait(LOOK_S):
        if server.engine.status.state == "failed":
            server.stop()
            raise Stop(FAILED, f"the engine cannot start: {server.engine.status.text}")
        for line in next(lines, ()):
            print(line, flush=True)
    print("stopping: no new requests; running ones may finish", flush=True)
    server.stop()
    for watcher in watchers:
        watcher.cancel()
    return OK


def _sweep(directory: Path, made: list[Path]) -> None:
    """Remove the directories that this start made, if it put nothing but its lock into them."""
    if directory in made and [path.name for path in directory.iterdir()] == ["lock"]:
        (directory / "lock").unlink()
        for path in made:
            path.rmdir()


def _holder(directory: Path) -> str:
    try:
        told = json.loads((directory / "server.json").read_text())
        return f"{told['url']}, process {told['pid']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "it is just starting or stopping"


def _say(code: int, message: str) -> int:
    print(f"batchscope: {message}", file=sys.stderr, flush=True)
    return code


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
