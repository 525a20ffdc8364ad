"""A bundle taken apart: its lines are checked one by one, its rows wait in a file of their own until it is whole.

What it leaves is what `batchscope simulate` leaves, so that adopt.py takes both over. Knows no server and no records of ours.
Invariant: whatever the file holds, memory stays bounded, and an error leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import re
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import orjson
from sqlalchemy import Connection, Table, func, select
from sqlalchemy.exc import IntegrityError

from app.store import bulk, database, migrate
from app.store.adopt import forget
from app.store.bundle import FORMAT, FORMAT_VERSION, LEFT_OUT, TABLES, inflater
from app.store.bundle_checks import checked
from app.store.bundle_names import renaming
from app.store.errors import BundleError
from app.store.instants import iso
from app.store.models import request_events, requests, runs
from app.store.own_lives import IMPORTED

MAX_LINE = 16 << 20
MAX_ROWS = 50_000_000
MAX_LIVES = 10_000
RUN_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,63}")
_FREE, _RATIO = 64 << 20, 200  # so much may come of any file; beyond, this many bytes of each byte read, and no more
_READ = 1 << 16
_BATCH = 500
_NAMES = {table.name: table for table in TABLES}


@dataclass(slots=True)
class Head:
    """What the first line says. name: the run's id here."""

    run: str
    name: str
    text: bool
    lives: int
    columns: dict[str, list[str]]
    about: dict[str, Any]


def unpack(
    source: BinaryIO, place: Callable[[str], Path], name: str | None = None, look: Callable[[int], object] = int
) -> Head:
    """Read the bundle into the file that `place(run id)` names. `name`: another id for the run. look(bytes read) now and then.

    Raises BundleError naming what is wrong; then there is no file.
    """
    lines = _numbered(source, look)
    head = _head(next(lines, (0, b""))[1], name)
    path = place(head.name)
    forget(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        migrate.upgrade(f"sqlite:///{path}")
        engine = database.writing(f"sqlite:///{path}")
        with engine.connect() as connection, connection.begin():
            _store(connection, lines, head)
            _cross_check(connection)
    except BaseException:
        forget(path)
        raise
    return head


def _numbered(source: BinaryIO, look: Callable[[int], object]) -> Iterator[tuple[int, bytes]]:
    return enumerate(_lines(source, look), 1)


def _lines(source: BinaryIO, look: Callable[[int], object]) -> Iterator[bytes]:
    """The lines of a gzip file; each is bounded, and so is what a byte of it may become."""
    rest, given = b"", 0
    for piece, taken in _inflated(source, look):
        given += len(piece)
        if given > _FREE + _RATIO * taken:
            raise BundleError(f"{given} bytes came out of {taken}: that is no bundle of a run")
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
        if len(rest) > MAX_LINE:
            raise BundleError(f"a line is longer than {MAX_LINE} bytes")
    if rest:
        raise BundleError("the file ends in the middle of a line: it was cut short")


def _inflated(source: BinaryIO, look: Callable[[int], object]) -> Iterator[tuple[bytes, int]]:
    """(bytes, how many were read so far)."""
    unzip, taken = inflater(), 0
    try:
        while not unzip.eof and (data := source.read(_READ)):
            taken += len(data)
            look(taken)
            while (piece := unzip.decompress(data, 1 << 20)) or unzip.unconsumed_tail:
                data = unzip.unconsumed_tail
                yield piece, taken
    except zlib.error as error:
        what = "is damaged" if taken > _READ else "is no bundle of a run (`batchscope runs export` makes one)"
        raise BundleError(f"the file {what}: {error}") from None
    if not unzip.eof:
        raise BundleError("the file is empty" if not taken else "the file ends too early: it was cut short")
    if unzip.unused_data or source.read(1):
        raise BundleError("something follows the end of the bundle")


def _head(line: bytes, name: str | None) -> Head:
    told = _parsed(line, 1)
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise BundleError("the file is no bundle of a run: `batchscope runs export` makes one", "format")
    version, run, lives, columns = (told.get(key) for key in ("version", "run", "lives", "columns"))
    if version != FORMAT_VERSION:
        made = str(told.get("batchscope"))[:40]
        raise BundleError(
            f"version {version!r} of the format (of Batchscope {made}) is not known here: this reads 1", "version"
        )
    if not isinstance(run, str) or not RUN_ID.fullmatch(run):
        raise BundleError(f"run must be an id of letters, digits, _ and -, not {str(run)[:60]!r}", "run")
    if not isinstance(lives, int) or isinstance(lives, bool) or not 0 <= lives <= MAX_LIVES:
        raise BundleError(f"lives must be a number from 0 to {MAX_LIVES}, not {str(lives)[:60]!r}", "lives")
    if name is not None and not RUN_ID.fullmatch(name):
        raise BundleError(f"a run's id has letters, digits, _ and -, 64 at most, not {name[:80]!r}", "as")
    return Head(run, name or run, told.get("text") is True, lives, _columns(columns), told)


def _columns(told: Any) -> dict[str, list[str]]:
    found = {}
    for table, names in told.items() if isinstance(told, dict) else ():
        if table not in _NAMES or not isinstance(names, list) or len(names) != len(set(map(str, names))):
            raise BundleError(f"columns.{str(table)[:60]} is no list of columns of a table known here", "columns")
        known = {column.name for column in _NAMES[table].columns} - set(LEFT_OUT.get(table, ()))
        for name in names:
            if name not in known:
                raise BundleError(
                    f"columns: {table}.{str(name)[:60]} is not known here: the file is of a newer version", "columns"
                )
        found[table] = names
    for table in TABLES:
        needed = {column.name for column in table.columns if not column.nullable}
        if lacking := needed - set(found.get(table.name, ())):
            raise BundleError(f"columns: {table.name} lacks {', '.join(sorted(lacking))}", "columns")
    return found


def _store(connection: Connection, lines: Iterator[tuple[int, bytes]], head: Head) -> None:
    counts, summed, waiting = Counter[str](), hashlib.sha256(), dict[str, list[dict[str, Any]]]()
    rename = renaming(head.run, head.name)
    for number, line in lines:
        told = _parsed(line, number)
        if isinstance(told, dict):
            _flush(connection, waiting)
            _ends(told, counts, summed.hexdigest(), lines)
            return
        summed.update(line + b"\n")
        table = _NAMES.get(told[0]) if isinstance(told, list) and told and isinstance(told[0], str) else None
        if table is None:
            raise BundleError(f"line {number}: expected a row of a known table, not {line[:60]!r}")
        counts[table.name] += 1
        if sum(counts.values()) > MAX_ROWS:
            raise BundleError(f"more than {MAX_ROWS} rows")
        waiting.setdefault(table.name, []).append(rename(table, _row(table, told[1:], head, number)))
        if len(waiting[table.name]) == _BATCH:
            _flush(connection, waiting)
    raise BundleError("the file has no last line that sums it up: it was cut short")


def _row(table: Table, values: list[Any], head: Head, number: int) -> dict[str, Any]:
    try:
        row = checked(table, head.columns[table.name], values, head.run, head.lives)
    except BundleError as error:
        raise BundleError(f"line {number}: {error.message}", error.param) from None
    if table is runs:
        made = {"boots": list(range(1, head.lives + 1)), "from": head.run, "at": iso(time.time_ns())}
        told = {name: head.about.get(name) for name in ("batchscope", "exported") if isinstance(head.about.get(name), str)}
        row["versions"] = {**(row["versions"] or {}), IMPORTED: made | told}
    return row


def _flush(connection: Connection, waiting: dict[str, list[dict[str, Any]]]) -> None:
    for name, rows in waiting.items():
        try:
            bulk.insert(connection, _NAMES[name], rows)
        except IntegrityError:
            raise BundleError(f"two rows of {name} have the same key", name) from None
    waiting.clear()


def _ends(told: Mapping[str, Any], counts: Mapping[str, int], summed: str, lines: Iterator[tuple[int, bytes]]) -> None:
    rows = {table.name: counts.get(table.name, 0) for table in TABLES}
    if rows[runs.name] != 1:
        raise BundleError(f"a bundle holds one run, this one {rows[runs.name]}", "runs")
    if told.get("rows") != rows:
        raise BundleError(f"its last line counts other rows than there are: {rows}", "rows")
    if told.get("sha256") != summed:
        raise BundleError("its rows are not those that its last line sums up: it was changed or damaged", "sha256")
    if next(lines, None) is not None:
        raise BundleError("something follows its last line")


def _cross_check(connection: Connection) -> None:
    events = request_events.c
    strangers = select(func.count()).where(events.request_id.not_in(select(requests.c.id)))
    if n := connection.execute(strangers).scalar_one():
        raise BundleError(f"{n} events belong to no request of the file", "request_events.request_id")
    ended = select(func.count()).where(events.request_id == requests.c.id, events.terminal.is_(True)).scalar_subquery()
    unequal = select(requests.c.id, requests.c.sequences).where(ended != requests.c.sequences).limit(1)
    if found := connection.execute(unequal).first():
        raise BundleError(
            f"request {found.id} has {found.sequences} sequences, and not an end for each", "request_events.terminal"
        )


def _parsed(line: bytes, number: int) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        if number == 1:
            raise BundleError("the file is no bundle of a run: its first line is no JSON", "format") from None
        raise BundleError(f"line {number} is no JSON: {error}") from None
