"""Exports hold every row of the filter, and nothing that a spreadsheet would run."""

from __future__ import annotations

import csv
import io
import json
import sys
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import Records, make_bench, make_row, some_requests

from app.store import export, filters, parquet
from app.store.errors import QueryError


def exported(records: Records, form: str, **params: str) -> str:
    return b"".join(export.stream(form, records.queries.export_page, params)).decode()


@given(st.text())
def test_no_text_cell_starts_like_a_formula(text: str) -> None:
    cell = export.safe(text)
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\0"))
    assert cell in (text, "'" + text)


def test_numbers_stay_numbers() -> None:
    assert export.safe(-1) == -1 and export.safe(2.5) == 2.5 and export.safe(None) is None


def test_csv_is_rectangular_and_neutralised(records: Records) -> None:
    records.accept(make_row("a", tenant='=HYPERLINK("x")', kind='says "hi",\nthen', priority=-3, ignored_fields=("+x", "y")))
    header, row = csv.reader(io.StringIO(exported(records, "csv"), newline=""))
    found = dict(zip(header, row, strict=True))
    assert found["tenant"] == '\'=HYPERLINK("x")' and found["kind"] == 'says "hi",\nthen'
    assert found["priority"] == "-3" and found["ignored_fields"] == "'+x y" and found["ttft_ms"] == ""


def test_a_wait_that_was_not_is_zero_and_one_that_is_not_known_is_empty(records: Records) -> None:
    records.accept(make_row("waits"))
    records.play(make_bench(2), some_requests(1))
    rows = {row["id"]: row for row in csv.DictReader(io.StringIO(exported(records, "csv"), newline=""))}
    done = next(row for id, row in rows.items() if id != "waits")
    assert float(done["wait_kv_blocks_ms"]) == 0 and done["overtaken"] == "0" and rows["waits"]["wait_kv_blocks_ms"] == ""


def test_a_file_says_which_requests_it_holds() -> None:
    assert export.file_name({"run": "run_01A", "q": "ttft>5s", "sort": "-ttft_ms"}, "csv") == "requests-run_01A-ttft-5s.csv"
    assert export.file_name({}, "jsonl") == "requests.jsonl"
    evil = export.file_name({"tenant": '../"\r\n' + "x" * 300}, "csv")
    assert evil.startswith("requests-tenant-x") and len(evil) == export.MOST_NAME + len(".csv")


def test_every_row_is_exported_over_many_pages(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.store.queries.MAX_PAGE", 2)
    records.play(make_bench(2), some_requests(7))
    lines = [json.loads(line) for line in exported(records, "jsonl", sort="ttft_ms").splitlines()]
    assert [line["ttft_ms"] for line in lines] == sorted(line["ttft_ms"] for line in lines) and len(lines) == 7
    assert lines[0] == next(i for i in records.queries.requests({})["items"] if i["id"] == lines[0]["id"])
    assert len(exported(records, "csv", tenant="b").splitlines()) == 1 + 3
    assert filters.MAX_PAGE == 1000


def test_a_bad_filter_or_form_fails_before_the_first_byte(records: Records) -> None:
    for form, params in (("xlsx", {}), ("csv", {"colour": "red"})):
        with pytest.raises(QueryError):
            export.stream(form, records.queries.export_page, params)


def test_parquet_holds_the_filtered_set_with_types(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = pytest.importorskip("pyarrow.parquet", reason="NO PYARROW: Parquet is not tested here")
    monkeypatch.setattr("app.store.queries.MAX_PAGE", 3)
    monkeypatch.setattr(parquet, "GROUP", 4)
    records.play(make_bench(2), some_requests(9), run="one")
    for params, n in (({"q": "tenant:a"}, 5), ({"tenant": "nobody"}, 0)):
        data = b"".join(export.stream("parquet", records.queries.export_page, params))
        rows = tables.read_table(io.BytesIO(data)).to_pylist()
        wanted = records.queries.requests(params)["items"]
        assert [row["id"] for row in rows] == [item["id"] for item in wanted] and len(rows) == n
        for row, item in zip(rows, wanted, strict=True):
            assert row["ttft_ms"] == item["ttft_ms"] and row["received"] == datetime.fromisoformat(item["received"])
            assert row["wait_slots_ms"] == item["waits"].get("slots", 0.0) and row["run"] == "one"


def test_parquet_without_pyarrow_says_how_to_have_it(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(QueryError, match=r"pip install -e '\.\[parquet\]'") as caught:
        export.stream("parquet", records.queries.export_page, {})
    assert caught.value.param == "format"
