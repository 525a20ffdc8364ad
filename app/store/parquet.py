"""Requests as a Parquet file, in pieces: the only place that imports pyarrow, the extra `[parquet]`, and late.

Invariant: the columns and their types are the same for any rows, none included; instants are UTC timestamps, lists JSON text.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import datetime
from importlib.util import find_spec
from typing import Any

import orjson

from app.store.errors import QueryError
from app.store.models import requests
from app.store.request_json import waits_of
from scheduler.metrics import WAIT_REASONS

GROUP = 20_000  # rows to a group: fewer compress badly
_INSTANTS = ("received", "finished")
_COLUMNS = (
    "id", "run", "client_request_id", *_INSTANTS, "endpoint", "stream", "model", "tenant", "kind", "priority", "policy",
    "state", "finish", "detail", "status_code", "prompt_tokens", "cached_tokens", "output_tokens", "max_tokens", "sequences",
    "queue_ms", "ttft_ms", "tpot_ms", "e2e_ms", "prefill_ms", "decode_ms", "stalled_ms", "preempted_ms", "top_wait",
    "preemptions", "overtaken", "deadline_ms", "timeout_ms", "boot", "number",
)  # fmt: skip
_WAITS = tuple(f"wait_{reason}_ms" for reason in WAIT_REASONS)


def available() -> bool:
    """Is the extra installed? Nothing is imported to know."""
    return find_spec("pyarrow") is not None


class ParquetPages:
    """A file that grows: each `add` and the `end` give its next bytes. Raises QueryError("format") without pyarrow."""

    def __init__(self) -> None:
        try:
            import pyarrow
            import pyarrow.parquet as writer
        except ImportError:
            raise QueryError(
                "Parquet needs pyarrow: .venv/bin/pip install -e '.[parquet]' (or ask for csv or jsonl)", "format"
            ) from None
        self._arrow: Any = pyarrow
        self._schema = pyarrow.schema([(name, _type(pyarrow, name)) for name in (*_COLUMNS, *_WAITS, "ignored_fields")])
        self._sink = _Pipe()
        self._file: Any = writer.ParquetWriter(self._sink, self._schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []

    def add(self, items: list[dict[str, Any]]) -> bytes:
        """The bytes that these rows complete; none while a group fills."""
        self._rows += [_row(item) for item in items]
        if len(self._rows) >= GROUP:
            self._write()
        return self._taken()

    def end(self) -> bytes:
        """The rest."""
        self._write()
        self._file.close()
        return self._taken()

    def _write(self) -> None:
        self._file.write_table(self._arrow.Table.from_pylist(self._rows, schema=self._schema))
        self._rows = []

    def _taken(self) -> bytes:
        return self._sink.take()


class _Pipe(io.RawIOBase):
    """Takes what is written and gives it away; never seeks back."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._place = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._place += len(part)
        return len(part)

    def tell(self) -> int:
        return self._place

    def take(self) -> bytes:
        data, self._parts = b"".join(self._parts), []
        return data


def _row(item: Mapping[str, Any]) -> dict[str, Any]:
    instants = {name: None if item[name] is None else datetime.fromisoformat(item[name]) for name in _INSTANTS}
    return {**item, **waits_of(item), **instants, "ignored_fields": orjson.dumps(item["ignored_fields"]).decode()}


def _type(arrow: Any, name: str) -> Any:
    if name in _INSTANTS:
        return arrow.timestamp("us", "UTC")
    if name.endswith("_ms"):
        return arrow.float64()
    if name == "ignored_fields":
        return arrow.string()
    kinds = {int: arrow.int64(), bool: arrow.bool_(), str: arrow.string()}
    return kinds[requests.c[name].type.python_type]
