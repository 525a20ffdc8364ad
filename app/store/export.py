"""Exports of a filtered set of requests, page by page: CSV that no spreadsheet will run, JSON lines, Parquet.

Knows no HTTP and holds no connection: the caller fetches the pages (on a thread, in the web process).
Invariant: text cells that a spreadsheet would take for a formula get a leading apostrophe; numbers stay numbers.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import orjson

from app.store.errors import QueryError
from app.store.parquet import ParquetPages
from app.store.request_json import waits_of
from scheduler.metrics import WAIT_REASONS

Fetch = Callable[[Mapping[str, str], str | None], tuple[list[dict[str, Any]], str | None]]

COLUMNS = (
    "id", "run", "client_request_id", "received", "finished", "endpoint", "stream", "model", "tenant", "kind", "priority",
    "policy", "state", "finish", "detail", "status_code", "prompt_tokens", "cached_tokens", "output_tokens", "max_tokens",
    "sequences", "queue_ms", "ttft_ms", "tpot_ms", "e2e_ms", "prefill_ms", "decode_ms", "stalled_ms", "preempted_ms",
    "top_wait", "preemptions", "overtaken", "deadline_ms", "timeout_ms", "boot", "number",
)  # fmt: skip
MOST_NAME = 100  # characters of a file's name
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\0")
MEDIA = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}


def stream(form: str, fetch: Fetch, params: Mapping[str, str]) -> Iterator[bytes]:
    """The export in pieces of one page; raises QueryError at once for an unknown form or a bad filter."""
    if form not in MEDIA:
        raise QueryError(f"exports are {' and '.join(MEDIA)}, not {form!r}", "format")
    first = fetch(params, None)  # before the first byte, so that a bad filter is still an error answer
    if form == "parquet":
        return _parquet(ParquetPages(), _pages(fetch, params, *first))
    return _pieces(form, _pages(fetch, params, *first))


def _pages(
    fetch: Fetch, params: Mapping[str, str], items: list[dict[str, Any]], after: str | None
) -> Iterator[list[dict[str, Any]]]:
    yield items
    while after is not None:
        items, after = fetch(params, after)
        yield items


def _pieces(form: str, pages: Iterable[list[dict[str, Any]]]) -> Iterator[bytes]:
    if form == "csv":
        yield csv_head()
    for items in pages:
        yield _page(form, items)


def _parquet(made: ParquetPages, pages: Iterable[list[dict[str, Any]]]) -> Iterator[bytes]:
    for items in pages:
        yield made.add(items)
    yield made.end()


def _page(form: str, items: list[dict[str, Any]]) -> bytes:
    if form == "jsonl":
        return b"".join(orjson.dumps(item, option=orjson.OPT_APPEND_NEWLINE) for item in items)
    return csv_rows(items)


def csv_head() -> bytes:
    """The line of names over all CSV of ours."""
    return _csv([[*COLUMNS, *(f"wait_{reason}_ms" for reason in WAIT_REASONS), "ignored_fields"]])


def csv_rows(items: Iterable[Mapping[str, Any]]) -> bytes:
    """A line a request, in the columns of `csv_head`."""
    return _csv([_cells(item) for item in items])


def _cells(item: Mapping[str, Any]) -> list[Any]:
    waits = list(waits_of(item).values())
    return [safe(item[name]) for name in COLUMNS] + waits + [safe(" ".join(item["ignored_fields"]))]


def file_name(params: Mapping[str, str], form: str) -> str:
    """Which requests they are, in the letters that every file system takes: requests-run_01…-ttft-5000ms.csv."""
    terms = {name: value for name, value in params.items() if value and name not in ("sort", "limit", "cursor", "q")}
    words = ["requests", terms.pop("run", ""), params.get("q", ""), *(f"{name}-{value}" for name, value in terms.items())]
    text = re.sub(r"[^A-Za-z0-9_]*-[^A-Za-z0-9_]*", "-", re.sub(r"[^A-Za-z0-9._]+", "-", "-".join(filter(None, words))))
    return f"{text[:MOST_NAME].strip('-.')}.{form}"


def safe(value: Any) -> Any:
    """A cell that is what it looks like: text that would be a formula gets an apostrophe, undefined is empty."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and value.startswith(_FORMULA):
        return "'" + value
    return value


def table_csv(columns: list[str], rows: list[list[Any]]) -> bytes:
    """Any table as CSV, its names too."""
    return _csv([[safe(name) for name in columns], *([safe(value) for value in row] for row in rows)])


def _csv(rows: list[list[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()
