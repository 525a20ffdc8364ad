"""`runs export` and `runs import`: a run as one file, to be kept or moved. Knows no table and no line of the file.

Invariant: a file that is there is never written over, and what was begun and not ended is removed again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote, urlencode

from app.cli.failures import OK, USAGE, CommandError
from app.cli.hand_over import hand_over
from app.cli.holding import held
from app.cli.records import existing_database
from app.cli.server import client_key, holding, named_or_holding
from app.cli.settings import server_settings
from app.cli.terminal import ProgressLine, print_json, size
from app.settings import ServerSettings
from app.store import bundle, migrate
from app.store.adopt import forget, simulation_path
from app.store.bundle_reading import Head, unpack
from app.store.errors import QueryError, StoreError
from app.store.queries import Queries

_LAST = 1 << 16  # bytes of the last line of a bundle, at most


def add_bundles(words: Any, common: argparse.ArgumentParser) -> None:
    """Below `runs`: `export` and `import`."""
    out = words.add_parser(
        "export",
        parents=[common],
        help="write a run to one file",
        description="Write a run, its requests, events and steps to one compressed file that `runs import` reads.",
    )
    out.add_argument("run", metavar="RUN", help="id of a run that has ended")
    out.add_argument("-o", "--out", metavar="FILE", help=f"where to; `-`: standard output (default: RUN{bundle.SUFFIX})")
    out.add_argument("--with-text", action="store_true", help="with the prompts and outputs that were recorded (--record-text)")
    out.set_defaults(act=export_run)
    into = words.add_parser(
        "import",
        parents=[common],
        help="take over a run from such a file",
        description="Check a file of `runs export` and take its run into the records of this data directory.",
    )
    into.add_argument("file", metavar="FILE", help="the file; `-`: standard input")
    into.add_argument("--as", dest="name", metavar="ID", help="under another id, beside a run that has the same")
    into.set_defaults(act=import_run)


def export_run(options: argparse.Namespace) -> int:
    """A run to a file."""
    ask = partial(_bundle, server_settings(options), options.url, options.run, options.with_text)
    if options.out == "-":
        sys.stdout.buffer.writelines(ask())
        return OK
    path = Path(options.out or f"{options.run}{bundle.SUFFIX}")
    written = _write(path, ask)
    with path.open("rb") as file:
        rows = _last_line(iter(partial(file.read, 1 << 20), b""))["rows"]
    if options.json:
        print_json({"file": str(path), "bytes": written, "run": options.run, "rows": rows})
    else:
        what = f"{rows['requests']} requests, {rows['request_events']} events, {rows['steps']} steps"
        print(f"wrote {path}: {size(written)}, {what}")
    return OK


def import_run(options: argparse.Namespace) -> int:
    """A file's run into the records."""
    settings = server_settings(options)
    if options.url:
        raise CommandError("a run is imported on the machine that has the data directory: give --data-dir, not --url", USAGE)
    if holding(settings.directory, client_key()) is None:
        with held(settings.directory):
            migrate.upgrade(settings.records_url)
    path: Path | None = None

    def place(run_id: str) -> Path:
        nonlocal path
        path = simulation_path(settings.directory, run_id)
        return path

    head = _unpacked(options.file, place, options.name)
    assert path is not None
    if _is_here(settings, head, path):
        forget(path)
        return _told(options, head, "already here", f"run {head.name} is here already, with the same content: nothing to do")
    hand_over(settings, None, path, head.name)
    beside = "" if head.name == head.run else f" (there: {head.run})"
    return _told(options, head, "imported", f"imported run {head.name}{beside}: `batchscope report {head.name}`")


def _unpacked(file: str, place: Any, name: str | None) -> Head:
    if file == "-":
        return unpack(sys.stdin.buffer, place, name)
    line, total = ProgressLine(), max(1, Path(file).stat().st_size)
    with open(file, "rb") as source:
        head = unpack(source, place, name, lambda read: line.show(read / total, f"{size(read)} of {size(total)} checked"))
    line.end()
    return head


def _is_here(settings: ServerSettings, head: Head, path: Path) -> bool:
    """Is this very run in the records? Raises CommandError where another one has its id."""
    try:
        summed = _last_line(_bundle(settings, None, head.name, head.text))["sha256"]
    except (StoreError, CommandError) as error:
        if _says_that_it_is_not_here(error):
            return False
        forget(path)
        raise
    with closing(Queries(f"sqlite:///{path}")) as queries:
        ours = bundle.digest(queries.ask, head.name, text=head.text)
    if summed == ours:
        return True
    forget(path)
    raise CommandError(f"another run {head.name} is here, with other content: give this one an id of its own with --as ID")


def _says_that_it_is_not_here(error: StoreError | CommandError) -> bool:
    """The records' word for it, or the server's."""
    if isinstance(error, CommandError):
        return error.answered == "run_not_found"
    return isinstance(error, QueryError) and error.param == "run"


def _bundle(settings: ServerSettings, url: str | None, run: str, text: bool) -> Iterator[bytes]:
    """The run's file in pieces, from the server or the database."""
    server = named_or_holding(url, settings.directory)
    if server is not None:
        return server.download(f"/api/runs/{quote(run, safe='')}/bundle?{urlencode({'text': int(text)})}")
    return _stored(existing_database(settings), run, text)


def _stored(database: str, run: str, text: bool) -> Iterator[bytes]:
    with closing(Queries(database)) as queries:
        yield from bundle.stream(queries.ask, run, text=text)


def _write(path: Path, ask: Callable[[], Iterable[bytes]]) -> int:
    written = 0
    try:
        file: BinaryIO = path.open("xb")
    except FileExistsError:
        raise CommandError(f"{path} is there already: name another with -o FILE") from None
    line = ProgressLine()
    try:
        with file:
            for piece in ask():
                written += file.write(piece)
                line.show(None, f"{size(written)} written")
    except BaseException:
        path.unlink()
        raise
    line.end()
    return written


def _last_line(pieces: Iterable[bytes]) -> dict[str, Any]:
    """Of a bundle: how many rows it has, and the sum of its content."""
    tail, inflater = b"", bundle.inflater()
    for piece in pieces:
        tail = (tail + inflater.decompress(piece))[-_LAST:]
    told: dict[str, Any] = json.loads(tail.splitlines()[-1])
    return told


def _told(options: argparse.Namespace, head: Head, outcome: str, sentence: str) -> int:
    if options.json:
        print_json({"run": head.name, "outcome": outcome, "from": head.run, "exported": head.about.get("exported")})
    else:
        print(sentence)
    return OK
