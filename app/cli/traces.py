"""Request traces as asks: three formats, told apart by their first line. Reads line by line; knows no scheduler.

  Azure      CSV with TIMESTAMP, ContextTokens, GeneratedTokens (AzurePublicDataset, LLM inference traces)
  Mooncake   JSON lines with timestamp (ms), input_length, output_length, hash_ids: two requests whose ids begin alike share
             so many blocks of 512 prompt tokens
  ours       JSON lines with arrival_ms, prompt_tokens, output_tokens; also tenant, kind, priority, deadline_ms, timeout_ms,
             expected_output_tokens, hash_ids
Arrivals count from the first one's instant in Azure's, from 0 in the others.
Invariant: every line of the file is an ask, or ends the command with its number; arrivals do not go back.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

from app.cli.failures import CommandError
from scheduler.simulate import Ask

SHARED_BLOCK = 512
MS = 1_000_000
MOST_TOKENS = 1 << 24
AZURE = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
MOONCAKE = frozenset({"timestamp", "input_length", "output_length", "hash_ids"})
OURS = frozenset(
    {"arrival_ms", "prompt_tokens", "output_tokens", "tenant", "kind", "priority", "deadline_ms", "timeout_ms"}
    | {"expected_output_tokens", "hash_ids"}
)
Parse = Callable[[str], Ask]


class BadLine(Exception):
    """What is wrong with a line."""


def read_trace(path: Path) -> Iterator[Ask]:
    """The asks of a file, lazily; raises CommandError naming file and line."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            head = file.readline()
            if head.strip().split(",") == list(AZURE):
                yield from _asks(file, _azure(), str(path), 2)
            elif head.lstrip().startswith("{"):
                yield from _asks(chain([head], file), json_ask, str(path), 1)
            else:
                raise CommandError(
                    f"{path}, line 1: neither Azure's heading ({','.join(AZURE)}) nor a JSON object; see docs/measuring.md"
                )
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error


def _asks(lines: Iterable[str], parse: Parse, name: str, first: int) -> Iterator[Ask]:
    before = 0
    for number, line in enumerate(lines, start=first):
        if not line.strip():
            continue
        try:
            ask = parse(line)
            if ask.at < before:
                raise BadLine(f"it arrives {(before - ask.at) / MS:g} ms before the one above it")
        except BadLine as error:
            raise CommandError(f"{name}, line {number}: {error}") from error
        before = ask.at
        yield ask


def json_ask(line: str) -> Ask:
    """Mooncake's line or one of ours; without `arrival_ms` (a closed loop's) it has no instant of its own."""
    try:
        row = json.loads(line)
    except ValueError as error:
        raise BadLine(f"not JSON: {error}") from error
    if not isinstance(row, dict):
        raise BadLine("not a JSON object")
    return _mooncake(row) if "input_length" in row else _ours(row)


def _azure() -> Parse:
    begun: list[datetime] = []

    def parse(line: str) -> Ask:
        cells = next(csv.reader([line]))
        if len(cells) != len(AZURE):
            raise BadLine(f"{len(cells)} columns, not {len(AZURE)}")
        try:
            at = datetime.fromisoformat(cells[0][:26])  # seven digits of a second, of which a datetime keeps six
        except ValueError as error:
            raise BadLine(f"TIMESTAMP {cells[0]!r} is no instant") from error
        begun[:] = begun or [at]
        since = at - begun[0]
        ns = (since.days * 86_400 + since.seconds) * 1000 * MS + since.microseconds * 1000
        return Ask(ns, _tokens_of(cells[1], AZURE[1]), _tokens_of(cells[2], AZURE[2]))

    return parse


def _mooncake(row: Mapping[str, Any]) -> Ask:
    _only(row, MOONCAKE)
    at = round(_number(row, "timestamp") * MS)
    return Ask(at, _tokens(row, "input_length"), _tokens(row, "output_length"), shared=_shared(row))


def _ours(row: Mapping[str, Any]) -> Ask:
    _only(row, OURS)
    expected = "expected_output_tokens"
    return Ask(
        at=round(_number(row, "arrival_ms") * MS) if "arrival_ms" in row else 0,
        prompt_tokens=_tokens(row, "prompt_tokens"),
        output_tokens=_tokens(row, "output_tokens"),
        tenant=_text(row, "tenant", "default"),
        kind=_text(row, "kind", "interactive"),
        priority=_whole(row.get("priority", 0), "priority"),
        deadline_ms=None if row.get("deadline_ms") is None else _number(row, "deadline_ms"),
        timeout_ms=None if row.get("timeout_ms") is None else _number(row, "timeout_ms"),
        expected_output_tokens=None if row.get(expected) is None else _tokens(row, expected),
        shared=_shared(row),
    )


def _only(row: Mapping[str, Any], known: frozenset[str]) -> None:
    unknown = [name for name in row if name not in known]
    if unknown:
        raise BadLine(f"unknown field {unknown[0]!r}; known: {', '.join(sorted(known))}")


def _shared(row: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    ids = row.get("hash_ids", [])
    if not isinstance(ids, list):
        raise BadLine("hash_ids must be a list of whole numbers")
    return tuple((_whole(each, "hash_ids"), SHARED_BLOCK) for each in ids)


def _number(row: Mapping[str, Any], name: str) -> float:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        raise BadLine(f"{name} must be a number that is not negative, not {value!r}")
    return float(value)


def _whole(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadLine(f"{name} must be a whole number, not {value!r}")
    return value


def _tokens(row: Mapping[str, Any], name: str) -> int:
    return _in_range(_whole(row.get(name), name), name)


def _tokens_of(text: str, name: str) -> int:
    try:
        return _in_range(int(text), name)
    except ValueError:
        raise BadLine(f"{name} must be a whole number, not {text.strip()!r}") from None


def _in_range(tokens: int, name: str) -> int:
    if not 1 <= tokens <= MOST_TOKENS:
        raise BadLine(f"{name} must be from 1 to {MOST_TOKENS}, not {tokens}")
    return tokens


def _text(row: Mapping[str, Any], name: str, default: str) -> str:
    value = row.get(name, default)
    if not isinstance(value, str) or not 0 < len(value) <= 200:
        raise BadLine(f"{name} must be text of 1 to 200 characters, not {value!r}")
    return value
