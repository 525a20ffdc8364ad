"""The sort keys of a run that no index has, each kept as a narrow column at its end, its ids beside them.

An index of such a key would cost the writer for each request, and a scan reads whole rows. A column is the key of every
request of the run in the order of their ids, as plain numbers, in parts of PART; column_pages.py reads them.
Invariant: what is kept is exact; a column of a run is as long as the run, no request of which was open then. The ids are
written before the columns and deleted after them, so that whoever finds a whole column finds its ids.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from os.path import commonprefix
from typing import Any

import numpy as np
from sqlalchemy import Connection, delete, insert, select

from app.store.errors import QueryError
from app.store.models import run_columns
from app.store.models import runs as runs_table

KEYS = ("tpot_ms", "prompt_tokens", "cached_tokens", "output_tokens", "preemptions", "priority")
IDS = "id"
PART = 4096  # values
_WIDEST = 2.0**53  # every whole number up to here is a float
_WHOLE = ("<i1", "<i2", "<i4")
_FLOAT = "<f8"
_TURN_S = 0.002  # how long a transaction goes on with parts: accepts wait meanwhile


@dataclass(frozen=True, slots=True)
class Part:
    """PART values of one column; the last one of a run may be shorter. ids: from `first_id` to `last_id`, in order.

    data: of a key, numbers of `form` (a NaN is NULL); of IDS, what follows their common beginning, in `form` bytes each.
    """

    name: str
    part: int
    size: int
    form: str
    first_id: str
    last_id: str
    data: bytes


def pack(rows: Iterable[Mapping[str, Any]]) -> list[Part]:
    """The columns of a run, by its rows in order of their ids. A key that a float does not hold exactly is left out."""
    left, number, made = iter(rows), 0, {name: list[Part]() for name in (IDS, *KEYS)}
    while piece := list(islice(left, PART)):
        made[IDS].append(_ids(number, piece))
        for name in KEYS:
            part = _numbers(name, number, piece) if name in made else None
            if part is not None:
                made[name].append(part)
            else:
                made.pop(name, None)
        number += 1
    return [part for column in made.values() for part in column]


def ids_of(part: Part, places: Sequence[int]) -> list[str]:
    """The ids at these places of a part of IDS."""
    width, start = int(part.form), commonprefix((part.first_id, part.last_id))
    return [start + part.data[at * width : (at + 1) * width].rstrip(b"\0").decode() for at in places]


def keep(connection: Connection, run_id: str, parts: Sequence[Part]) -> Generator[None, None, None]:
    """Job of the Writer, in slices: these instead of what was kept before. Of a run that is gone nothing is kept."""
    yield from forget(connection, run_id)
    ends_at = time.monotonic() + _TURN_S
    for part in parts:
        if time.monotonic() > ends_at:
            yield
            ends_at = time.monotonic() + _TURN_S
        if connection.execute(select(runs_table.c.id).where(runs_table.c.id == run_id)).first() is None:
            raise QueryError(f"no run {run_id!r}", "run")
        connection.execute(insert(run_columns), [asdict(part) | {"run": run_id}])


def forget(connection: Connection, run_id: str) -> Generator[None, None, None]:
    """Job of the Writer, in slices: the columns are to be made anew, or the run is deleted."""
    table, ends_at = run_columns.c, time.monotonic() + _TURN_S
    for name in (*KEYS, IDS):
        mine = (table.run == run_id) & (table.name == name)
        for part in connection.execute(select(table.part).where(mine)).scalars().all():
            connection.execute(delete(run_columns).where(mine, table.part == part))
            if time.monotonic() > ends_at:
                yield
                ends_at = time.monotonic() + _TURN_S


def _ids(number: int, rows: Sequence[Mapping[str, Any]]) -> Part:
    first, last = rows[0]["id"], rows[-1]["id"]
    shared = len(commonprefix((first, last)))
    rests = np.array([row["id"][shared:].encode() for row in rows], "S")
    return Part(IDS, number, len(rows), str(rests.itemsize), first, last, rests.tobytes())


def _numbers(name: str, number: int, rows: Sequence[Mapping[str, Any]]) -> Part | None:
    """As narrow as they are; None where one of them is too wide."""
    values = np.array([row[name] for row in rows], _FLOAT)  # a None becomes a NaN
    widest = float(np.fmax.reduce(np.abs(values), initial=0.0))
    if widest >= _WIDEST:
        return None
    whole = [form for form in _WHOLE if widest <= np.iinfo(form).max] if (values == np.rint(values)).all() else []
    form = whole[0] if whole else _FLOAT
    return Part(name, number, len(rows), form, rows[0]["id"], rows[-1]["id"], values.astype(form).tobytes())
