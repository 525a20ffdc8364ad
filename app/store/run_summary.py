"""What is kept of a run at its end, so that its report and its comparisons open at once, however many requests it had.

Computed on a connection that reads, written by a job of the Writer. Beside the figures stands what they were made from: how
many rows, by which version of the figures' code, whether anything was still open.
Invariant: what was kept is shown only while it is what the rows would give: as many rows as then, none of them open then,
the same bounds, this version of the code. Else it is made anew from the rows, and `summary.why` says so.
"""

from __future__ import annotations

import time
import zlib
from array import array
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Any

import orjson
from sqlalchemy import Connection, delete, func, insert, literal_column, select

from app.store import comparison_split as splits
from app.store import reports, runs
from app.store.comparison_side import Side, side_of
from app.store.errors import QueryError
from app.store.instants import iso
from app.store.models import client_requests, requests, run_summaries
from app.store.models import runs as runs_table
from app.store.report_figures import Slo
from app.store.report_rows import Gathered, Told, gather, nobody
from app.store.run_columns import Part, pack

VERSION = 4  # of the figures: raised with every change of what a report or a comparison says of the same rows
PROGRESS = ("sent", "ok", "failed", "refused", "cancelled", "incomplete", "in_flight")
_FIELDS = ("version", "server_rows", "client_rows", "open_rows")


@dataclass(frozen=True, slots=True)
class Kept:
    """A summary as it is written. `lines`: deflated JSON of what a comparison shows beside the report; `draws`: resamples.

    sorted_by: the columns of the run's sort keys (run_columns.py); none where a request of it was still open.
    """

    report: dict[str, Any]
    columns: dict[str, Any]
    lines: bytes
    draws: bytes
    sorted_by: list[Part]

    @property
    def as_bytes(self) -> bytes:
        """For another process: a line of JSON, then what is packed already, end to end."""
        packed = [self.lines, self.draws, *[part.data for part in self.sorted_by]]
        parts = [asdict(part) | {"data": None} for part in self.sorted_by]
        head = [self.report, self.columns, [len(each) for each in packed], parts]
        return b"".join([orjson.dumps(head, option=orjson.OPT_NON_STR_KEYS), b"\n", *packed])

    @classmethod
    def of_bytes(cls, data: bytes) -> Kept:
        """The same again."""
        head, _, rest = data.partition(b"\n")
        report, columns, sizes, parts = orjson.loads(head)
        ends = list(accumulate(sizes, initial=0))
        lines, draws, *packed = [rest[start:end] for start, end in pairwise(ends)]
        sorted_by = [Part(**part | {"data": mine}) for part, mine in zip(parts, packed, strict=True)]
        return cls(report, columns, lines, draws, sorted_by)


def compute(connection: Connection, run_id: str, slo: Slo | None = None, told: Told = nobody) -> Kept:
    """From the rows as they are now; raises QueryError("run") when there is no such run. `told` hears of its progress."""
    counted = _rows(connection, run_id) | {"open_rows": open_rows(connection, run_id)}
    columns = counted | {"version": VERSION, "made_wall": time.time_ns()}
    found = gather(connection, run_id, told)
    made = _computed(connection, found, run_id, slo, told)
    names = {name: n for name, (n, _) in made.draws.items()}
    drawn = {name: draws for name, (_, draws) in made.draws.items() if draws is not None}
    lines = {"extra": made.extra, "engine": made.report["engine"], "n": names, "drawn": list(drawn)}
    packed = zlib.compress(orjson.dumps(lines, option=orjson.OPT_NON_STR_KEYS), 1)
    sorted_by = [] if columns["open_rows"] else pack(sorted(found.server, key=itemgetter("id")))
    return Kept(made.report, columns, packed, b"".join(draws.tobytes() for draws in drawn.values()), sorted_by)


def keep(connection: Connection, run_id: str, kept: Kept) -> dict[str, Any]:
    """Job of the Writer: the report with the run, the rest beside it; the run's JSON. A run that is gone is left gone."""
    if connection.execute(select(runs_table.c.id).where(runs_table.c.id == run_id)).first() is None:
        raise QueryError(f"no run {run_id!r}", "run")
    forget(connection, run_id)
    row = kept.columns | {"run": run_id, "lines": kept.lines, "draws": kept.draws}
    connection.execute(insert(run_summaries), [row])
    report = kept.report
    said = {"report": report, "verdict": report["verdict"], "verdict_reason": report["verdict_reason"]}
    return runs.change(connection, run_id, **said, **_counted(connection, run_id, report))


def _counted(connection: Connection, run_id: str, report: dict[str, Any]) -> dict[str, Any]:
    """The progress of a run whose generator told us none: the records have counted it."""
    told = connection.execute(select(runs_table.c.progress).where(runs_table.c.id == run_id)).scalar()
    counts = report["reconciliation"]
    return {} if told else {"progress": {name: counts[name] for name in PROGRESS if name in counts}}


def forget(connection: Connection, run_id: str) -> None:
    """Job of the Writer: it is to be made anew, or its run is deleted."""
    connection.execute(delete(run_summaries).where(run_summaries.c.run == run_id))


def report(connection: Connection, run_id: str, slo: Slo | None = None) -> dict[str, Any]:
    """The report of a run, kept or made anew; `summary` says which: {stored, made, why}."""
    why = outdated(connection, run_id, slo)
    if why is None:
        return stored_report(connection, run_id)
    return made_anew(reports.build(connection, run_id, slo), why)


def made_anew(report: dict[str, Any], why: str) -> dict[str, Any]:
    """A report that was not kept, and why not."""
    return report | {"summary": {"stored": False, "made": iso(time.time_ns()), "why": why}}


def side(connection: Connection, run_id: str, slo: Slo | None = None) -> Side:
    """What a run brings to a comparison, kept or made anew."""
    if outdated(connection, run_id, slo) is not None:
        return _computed(connection, gather(connection, run_id), run_id, slo, nobody)
    row = connection.execute(select(run_summaries).where(run_summaries.c.run == run_id)).mappings().one()
    lines = orjson.loads(zlib.decompress(row["lines"]))
    numbers = array("f", row["draws"])
    width = len(numbers) // len(lines["drawn"]) if lines["drawn"] else 0
    places = {name: place * width for place, name in enumerate(lines["drawn"])}
    draws = {
        name: (n, numbers[places[name] : places[name] + width] if name in places else None) for name, n in lines["n"].items()
    }
    return Side(stored_report(connection, run_id) | {"engine": lines["engine"]}, draws, lines["extra"])


def outdated(connection: Connection, run_id: str, slo: Slo | None = None) -> str | None:
    """Why what is kept of a run would not do; None when it does. Raises QueryError("run")."""
    status = connection.execute(select(runs_table.c.status).where(runs_table.c.id == run_id)).scalar()
    if status is None:
        raise QueryError(f"no run {run_id!r}", "run")
    kept = connection.execute(
        select(*[run_summaries.c[name] for name in _FIELDS]).where(run_summaries.c.run == run_id)
    ).mappings().first()  # fmt: skip
    if status in runs.ACTIVE:
        return f"the run is {status}"
    if kept is None:
        return "nothing was kept of this run"
    if kept["version"] != VERSION:
        return f"it was kept by version {kept['version']} of the figures, this is version {VERSION}"
    if kept["open_rows"]:
        return "requests of the run were still open when it was made"
    if slo is not None and slo != _bounds(connection, run_id):
        return "other bounds are asked for than the run's"
    now = _rows(connection, run_id)
    return "rows have come or gone since it was made" if any(kept[name] != now[name] for name in now) else None


def _bounds(connection: Connection, run_id: str) -> Slo:
    kept = connection.execute(select(runs_table.c.report).where(runs_table.c.id == run_id)).scalar_one()["goodput"]["slo"]
    return Slo(kept["ttft_ms"], kept["tpot_ms"])


def rows_of(connection: Connection, run_id: str) -> int:
    """How many rows its figures are made from, on both sides."""
    found = _rows(connection, run_id)
    return int(found["server_rows"] + found["client_rows"])


def _rows(connection: Connection, run_id: str) -> dict[str, int]:
    """What is counted again before a kept summary is shown."""
    n, mine = select(func.count()), requests.c.run == run_id
    return {
        "server_rows": connection.execute(n.select_from(requests).where(mine)).scalar_one(),
        "client_rows": connection.execute(n.select_from(client_requests).where(client_requests.c.run == run_id)).scalar_one(),
    }


def open_rows(connection: Connection, run_id: str) -> int:
    """How many have not ended; not asked again once there is none, since who has ended stays so.

    In these very words it is the index of states that answers.
    """
    still = requests.c.state != literal_column("'finished'")
    question = select(func.count()).select_from(requests).where(requests.c.run == run_id, still)
    return int(connection.execute(question).scalar_one())


def _computed(connection: Connection, found: Gathered, run_id: str, slo: Slo | None, told: Told) -> Side:
    told("figures", 0)
    changes = [change.as_json for change in splits.changes_in(connection, found)]
    return side_of(connection, found, run_id, slo, splits.zero(found), {"changes": changes})


def stored_report(connection: Connection, run_id: str) -> dict[str, Any]:
    """Of a run that is not outdated: the kept figures beside the run's row as it is now."""
    row = runs.get(connection, run_id)
    report = row.pop("report")
    made = connection.execute(select(run_summaries.c.made_wall).where(run_summaries.c.run == run_id)).scalar_one()
    shown: dict[str, Any] = report | {"run": row, "summary": {"stored": True, "made": iso(made), "why": None}}
    return shown
