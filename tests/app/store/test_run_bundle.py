"""A run as a file: whole, the same wherever it is, and refused where it is not what it says."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from records import MS, WALL, Records, make_bench, make_row, some_requests
from simulated_records import RUN as SIMULATED
from simulated_records import Recorded
from sqlalchemy import Connection, select

from app.store import adopt as adopting
from app.store import bundle, bundle_reading, client_rows, runs
from app.store.adopt import adopt
from app.store.bundle_reading import unpack
from app.store.errors import BundleError, QueryError, StoreError
from app.store.models import boots, request_events, settings_changes, steps
from app.store.runs import NewRun

RUN = "measured"
SECOND = 1000 * MS
EQUAL = (
    "reconciliation", "percentiles", "waits", "steps", "throughput", "goodput", "timeline", "verdict", "verdict_reason",
    "fairness", "waste", "settings",
)  # fmt: skip
FIGURES = (
    "state", "finish", "waits", "ttft_ms", "e2e_ms", "tpot_ms", "queue_ms", "preemptions", "waited", "client", "received",
)  # fmt: skip


def measured(records: Records, run: str = RUN, boot: int = 5, **limits: Any) -> None:
    """A run with queueing and preemptions in one life, requests of nobody beside it, and what its clients saw."""
    records.job(partial(runs.create, run=NewRun(run, WALL, scenario="steady", seed=7, started_wall=WALL, status="running")))
    bench = make_bench(boot, blocks=24, **limits)
    records.play(bench, some_requests(9, prompt=20, max_tokens=12), run=run)
    seen = {"status": "ok", "http": 200, "due_ms": 0.0, "sent_ms": 1.0, "first_ms": 9.0, "last_ms": 30.0, "end_ms": 31.0}
    lines = [
        seen | {"id": f"c-r{n}", "n": n, "output_tokens": 12, "gaps_ms": [1.5, 2.25], "server_id": f"r{n}"} for n in range(9)
    ]
    records.job(partial(client_rows.add, run=run, rows=[client_rows.row(run, line) for line in lines]))
    records.accept(make_row(f"{run}-stranger", 5 * MS))
    records.writer.end(f"{run}-stranger", "rejected", "queue_full", 6 * MS)
    ended = {"status": "finished", "ended_wall": WALL + bench.clock.now + SECOND, "verdict": "valid"}
    records.job(partial(runs.change, run_id=run, **ended))


def exported(records: Records, run: str = RUN, **options: Any) -> bytes:
    return b"".join(bundle.stream(records.queries.ask, run, **options))


def taken_in(records: Records, data: bytes, directory: Path, name: str | None = None) -> str:
    head = unpack(io.BytesIO(data), lambda run: directory / f"{run}.db", name)
    records.job(partial(adopt, path=directory / f"{head.name}.db", run_id=head.name))
    return head.name


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Records]:
    """Other records, with a life and a run of their own in the same minute."""
    made = Records(tmp_path / "elsewhere.db")
    measured(made, "theirs", boot=4, max_num_seqs=2)
    made.sql("UPDATE requests SET id = 'x' || id")  # where servers make them, no two ids are the same
    made.sql("UPDATE request_events SET request_id = 'x' || request_id, sequence_id = 'x' || sequence_id")
    yield made
    made.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Records]:
    """Other records, empty."""
    made = Records(tmp_path / "other.db")
    yield made
    made.close()


def figures(records: Records, run: str) -> dict[str, Any]:
    report = records.queries.report(run)
    return {name: report[name] for name in EQUAL}


def test_an_imported_run_reports_as_the_original_and_changes_no_other(
    records: Records, elsewhere: Records, tmp_path: Path
) -> None:
    measured(records)
    before, theirs = figures(records, RUN), figures(elsewhere, "theirs")
    taken_in(elsewhere, exported(records), tmp_path)
    assert figures(elsewhere, RUN) == before and before["steps"]["n"] > 10
    assert any(row["preemptions"] for row in elsewhere.queries.requests({"run": RUN})["items"])
    assert figures(elsewhere, "theirs") == theirs
    for request in ("r0", "r7"):
        one, other = records.queries.request(request), elsewhere.queries.request(request)
        assert one is not None and other is not None
        assert {name: one[name] for name in FIGURES} == {name: other[name] for name in FIGURES}
        assert one["slices"]["t_ms"] == other["slices"]["t_ms"] and one["slices"]["tokens"] == other["slices"]["tokens"]
    bars, again = (each.queries.segments({"run": RUN}) for each in (records, elsewhere))
    assert bars["segments"]["t0"] == again["segments"]["t0"] and bars["start_ms"] == again["start_ms"]
    assert elsewhere.queries.compare([RUN, "theirs"])["metrics"]


def test_its_lives_lie_below_every_one_that_was_lived_here(records: Records, elsewhere: Records, tmp_path: Path) -> None:
    measured(records)
    newest = elsewhere.queries.steps({})["steps"]["boot"][-1]
    taken_in(elsewhere, exported(records), tmp_path)
    told = elsewhere.queries.run(RUN)["versions"]["imported"]
    assert told["boots"] and max(told["boots"]) < 0 and told["from"] == RUN
    assert elsewhere.queries.steps({})["steps"]["boot"][-1] == newest
    elsewhere.job(partial(runs.remove, run_id=RUN))
    for table in (boots, steps, request_events, settings_changes):
        assert elsewhere.queries.ask(lambda connection, t=table: connection.execute(select(t).where(t.c.boot < 0)).all()) == []


def test_the_same_run_has_the_same_content_wherever_it_is(records: Records, other: Records, tmp_path: Path) -> None:
    measured(records)
    first, data = bundle.digest(records.queries.ask, RUN), exported(records)
    taken_in(other, data, tmp_path)
    assert bundle.digest(other.queries.ask, RUN) == first
    assert gzip.decompress(exported(other)).splitlines()[1:] == gzip.decompress(data).splitlines()[1:]
    other.sql("UPDATE requests SET output_tokens = 1 WHERE id = 'r3'")
    assert bundle.digest(other.queries.ask, RUN) != first


def test_under_another_id_it_stands_beside_the_one_that_it_was(records: Records, tmp_path: Path) -> None:
    measured(records)
    data = exported(records)
    with pytest.raises(StoreError, match="here already"):
        taken_in(records, data, tmp_path)
    assert taken_in(records, data, tmp_path, "again") == "again"
    one, other = figures(records, RUN), figures(records, "again")
    longest = [each["fairness"]["starvation"].pop("longest_id") for each in (one, other)]
    assert one == other and longest[0] != longest[1], "equal but for the ids of its requests"
    ids = [{row["id"] for row in records.queries.requests({"run": run})["items"]} for run in (RUN, "again")]
    assert len(ids[0]) == len(ids[1]) == 9 and not ids[0] & ids[1]
    assert records.queries.request(max(ids[1]))["client"] is not None  # type: ignore[index]


def test_requests_that_another_run_has_are_refused_before_a_row_is_written(records: Records, tmp_path: Path) -> None:
    measured(records)
    data = exported(records)
    records.sql(f"UPDATE requests SET run = 'other' WHERE run = '{RUN}'")
    records.sql(f"DELETE FROM runs WHERE id = '{RUN}'")
    with pytest.raises(StoreError, match="in another run"):
        taken_in(records, data, tmp_path)
    assert records.sql("SELECT count(*) FROM boots WHERE boot < 0 UNION ALL SELECT count(*) FROM steps WHERE boot < 0") == [
        (0,),
        (0,),
    ]


def test_a_simulated_run_goes_the_same_way(records: Records, other: Records, tmp_path: Path) -> None:
    recorded = Recorded(tmp_path / "a.db")
    recorded.close()
    adopt_here_into(records, recorded.path)
    data = exported(records, SIMULATED)
    taken_in(other, data, tmp_path)
    assert other.queries.run(SIMULATED)["simulated"] is True
    assert figures(other, SIMULATED) == figures(records, SIMULATED)
    assert bundle.digest(other.queries.ask, SIMULATED) == bundle.digest(records.queries.ask, SIMULATED)


def adopt_here_into(records: Records, path: Path) -> None:
    records.job(partial(adopt, path=path, run_id=SIMULATED))


def test_an_import_that_was_cut_short_is_completed_by_the_next(
    records: Records, other: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(records)
    data = exported(records)
    unpack(io.BytesIO(data), lambda run: tmp_path / f"{run}.db")
    monkeypatch.setattr(adopting, "_TURN_S", -1.0)
    monkeypatch.setattr(adopting, "_PIECE", 3)

    def cut_short(connection: Connection) -> None:
        work = adopt(connection, tmp_path / f"{RUN}.db", RUN)
        for _ in range(4):
            next(work)

    other.job(cut_short)
    with pytest.raises(QueryError):
        other.queries.run(RUN)
    other.job(partial(adopt, path=tmp_path / f"{RUN}.db", run_id=RUN))
    assert figures(other, RUN) == figures(records, RUN)


def test_text_goes_along_only_where_it_is_asked_for(records: Records) -> None:
    measured(records)
    records.sql("UPDATE requests SET prompt_text = 'a secret' WHERE id = 'r1'")
    assert b"a secret" not in gzip.decompress(exported(records))
    assert b"a secret" in gzip.decompress(exported(records, text=True))


def test_who_held_what_before_the_run_began_is_told_by_its_first_step(records: Records) -> None:
    measured(records)
    records.sql("UPDATE steps SET blockers = NULL")
    records.sql("""UPDATE steps SET blockers = '{"reason": "slots", "limit": 4}' WHERE step = 2""")
    ((began,),) = records.sql("SELECT ended_wall FROM steps WHERE step = 4")
    records.sql(f"UPDATE runs SET started_wall = {began}")
    rows = [orjson.loads(line) for line in gzip.decompress(exported(records)).splitlines()[1:-1]]
    at = bundle.columns(steps).index("blockers") + 1
    told = [row[at] for row in rows if row[0] == "steps"]
    assert told[0] == {"reason": "slots", "limit": 4} and set(map(str, told[1:])) == {"None"}


def test_what_goes_on_is_not_exported(records: Records) -> None:
    measured(records)
    records.sql("UPDATE requests SET state = 'running' WHERE id = 'r1'")
    with pytest.raises(StoreError, match="have not ended"):
        exported(records)
    records.job(partial(runs.create, run=NewRun("busy", WALL)))
    with pytest.raises(StoreError, match="is active"):
        exported(records, "busy")
    with pytest.raises(QueryError, match="no run"):
        exported(records, "nobody")


# ---- what is no bundle


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The lines of a good bundle."""
    records = Records(tmp_path_factory.mktemp("bundle") / "a.db")
    try:
        measured(records)
        data = exported(records)
    finally:
        records.close()
    return gzip.decompress(data).splitlines(keepends=True)


def changed(lines: list[bytes], table: str, **values: Any) -> list[bytes]:
    """The lines with values of the first row of `table` changed."""
    names = orjson.loads(lines[0])["columns"][table]
    at = next(n for n, line in enumerate(lines) if n and orjson.loads(line)[0] == table)
    row = orjson.loads(lines[at])
    for name, value in values.items():
        row[1 + names.index(name)] = value
    return [*lines[:at], orjson.dumps(row) + b"\n", *lines[at + 1 :]]


def summed(lines: list[bytes]) -> list[bytes]:
    """The lines with a last one that fits them."""
    told = orjson.loads(lines[-1]) | {"sha256": hashlib.sha256(b"".join(lines[1:-1])).hexdigest()}
    return [*lines[:-1], orjson.dumps(told) + b"\n"]


def head(lines: list[bytes], **values: Any) -> list[bytes]:
    return [json.dumps(orjson.loads(lines[0]) | values).encode() + b"\n", *lines[1:]]


Change = Callable[[list[bytes]], list[bytes]]
BAD: dict[str, tuple[Change, str]] = {
    "a later version": (lambda lines: head(lines, version=2), "version 2"),
    "a path for an id": (lambda lines: head(lines, run="../../etc/passwd"), "run must be an id"),
    "an unknown column": (
        lambda lines: head(lines, columns=orjson.loads(lines[0])["columns"] | {"boots": ["boot", "colour"]}),
        "boots.colour is not known",
    ),
    "an unknown table": (lambda lines: head(lines, columns={"users": []}), "columns.users"),
    "a lacking column": (lambda lines: head(lines, columns={"boots": ["boot"]}), "runs lacks"),
    "another format": (lambda lines: head(lines, format="zip"), "no bundle"),
    "no head": (lambda lines: lines[1:], "no bundle"),
    "words for numbers": (
        lambda lines: changed(lines, "requests", output_tokens="many"),
        "requests.output_tokens must be a number",
    ),
    "a number too large": (lambda lines: changed(lines, "steps", waiting=1 << 40), "steps.waiting must be a whole number"),
    "null for an id": (lambda lines: changed(lines, "requests", id=None), "requests.id must not be null"),
    "another run's request": (lambda lines: changed(lines, "requests", run="b"), "requests.run must be measured"),
    "an open request": (lambda lines: changed(lines, "requests", state="running"), "requests.state must be finished"),
    "a running run": (lambda lines: changed(lines, "runs", status="running"), "runs.status must be one of"),
    "a life too many": (lambda lines: changed(lines, "steps", boot=99), "steps.boot must be a life"),
    "an unknown event": (lambda lines: changed(lines, "request_events", kind="Reboot"), "request_events.kind"),
    "an event without its data": (lambda lines: changed(lines, "request_events", data={}), "request_events.data of Request"),
    "a stranger's event": (
        lambda lines: summed(changed(lines, "request_events", request_id="zz", sequence_id="zz")),
        "belong to no request",
    ),
    "slices that are none": (lambda lines: changed(lines, "steps", slices="AXjaAAA="), "steps.slices must be packed"),
    "a list of settings": (lambda lines: changed(lines, "boots", settings=[1]), "boots.settings must be an object"),
    "a row twice": (lambda lines: [*lines[:2], lines[1], *lines[2:]], "same key"),
    "a row less": (lambda lines: [*lines[:5], *lines[6:]], "counts other rows|an end for each"),
    "a changed figure": (lambda lines: changed(lines, "requests", ttft_ms=0.5), "not those that its last line sums up"),
    "no last line": (lambda lines: lines[:-1], "cut short"),
    "lines after the last": (lambda lines: [*lines, lines[-1]], "follows its last line"),
    "no JSON": (lambda lines: [*lines[:3], b"{nan\n", *lines[3:]], "line 4 is no JSON"),
    "a row of nothing": (lambda lines: [*lines[:3], b"[]\n", *lines[3:]], "line 4: expected a row"),
    "a column too many": (lambda lines: [*lines[:1], lines[1][:-2] + b",1]\n", *lines[2:]], "values for"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_named_and_nothing_is_left(case: str, lines: list[bytes], tmp_path: Path) -> None:
    change, said = BAD[case]
    with pytest.raises(BundleError, match=said):
        unpack(io.BytesIO(gzip.compress(b"".join(change(lines)), 1)), lambda run: tmp_path / "x" / f"{run}.db")
    assert not list(tmp_path.glob("x/*"))


def test_a_file_that_is_cut_or_is_none_is_refused(lines: list[bytes], tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(lines))
    for data, said in (
        (b"", "empty"),
        (whole[: len(whole) // 2], "cut short"),
        (whole[:-3], "cut short"),
        (whole + b"more", "follows the end"),
        (b"PK\3\4 a zip file", "no bundle"),
        (b"SQLite format 3\0", "no bundle"),
        (whole[:200] + bytes(50) + whole[250:], "no bundle|damaged|JSON"),
    ):
        with pytest.raises(BundleError, match=said):
            unpack(io.BytesIO(data), lambda run: tmp_path / f"{run}.db")
    assert not list(tmp_path.iterdir())


def test_a_bomb_is_given_up_long_before_it_has_gone_off(
    lines: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle_reading, "_FREE", 1 << 16)
    endless = lines[0] + b" " * (8 << 20)
    with pytest.raises(BundleError, match="came out of|longer than"):
        unpack(io.BytesIO(gzip.compress(endless)), lambda run: tmp_path / f"{run}.db")
    monkeypatch.setattr(bundle_reading, "_FREE", 64 << 20)
    monkeypatch.setattr(bundle_reading, "MAX_LINE", 1 << 20)
    with pytest.raises(BundleError, match="longer than"):
        unpack(io.BytesIO(gzip.compress(endless)), lambda run: tmp_path / f"{run}.db")
