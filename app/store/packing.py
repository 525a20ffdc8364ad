"""Bytes for what is too numerous for rows: the slices of a step, the token gaps of a client's request.

Numbers are written as LEB128 varints (7 bits a byte, low first) of deltas, then deflated where that is much shorter. The
first byte says which: 0 plain, 1 deflated. Knows no table.
Invariant: unpack_slices(pack_slices(…)) gives the same slices sorted by number; gaps come back to the microsecond.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import sub

from scheduler.core.events import SliceRow

_PLAIN, _DEFLATED = b"\0", b"\1"
_ONE_BYTE = [bytes([value]) for value in range(0x80)]
WORTH_DEFLATING = 128  # bytes; below, deflating saves a tenth and costs more than all else that a step's row needs


def pack_slices(decodes: Sequence[int], chunks: Sequence[tuple[int, int, int]], failed: Sequence[int] = ()) -> bytes:
    """The slices of a StepCompleted; numbers must be unique within each group."""
    ordered = sorted(chunks)
    data = _varints((len(decodes), len(ordered), len(failed))) + _ascending(decodes)
    if ordered:
        data += _ascending([number for number, _, _ in ordered]) + _ascending(failed)
        data += _varints([tokens << 1 | emitted for _, tokens, emitted in ordered])
    elif failed:
        data += _ascending(failed)
    return _squeeze(data)


def unpack_slices(data: bytes) -> list[SliceRow]:
    """The slices again: decodes by number, then chunks by number."""
    values = _read_varints(_expand(data))
    n_decodes, n_chunks, n_failed = values[:3]
    first, second, third = 3 + n_decodes, 3 + n_decodes + n_chunks, 3 + n_decodes + n_chunks + n_failed
    failed = frozenset(_sums(values[second:third]))
    rows = [SliceRow(number, 1, "decode", 0 if number in failed else 1) for number in _sums(values[3:first])]
    tails = values[third:]
    rows += [
        SliceRow(number, tail >> 1, "prefill", tail & 1)
        for number, tail in zip(_sums(values[first:second]), tails, strict=True)
    ]
    return rows


def pack_gaps(gaps_ms: Sequence[float]) -> bytes:
    """Gaps between token events, ms; raises ValueError on a negative or non-finite one."""
    if any(not math.isfinite(gap) or gap < 0 for gap in gaps_ms):
        raise ValueError("gaps_ms must be finite and not negative")
    return _squeeze(_varints([round(gap * 1000) for gap in gaps_ms]))


def unpack_gaps(data: bytes | None) -> list[float]:
    """The gaps again, ms to three decimals; an absent column is no gaps."""
    return [] if data is None else [value / 1000 for value in _read_varints(_expand(data))]


def _ascending(numbers: Sequence[int]) -> bytes:
    """The numbers in order, each as what it is more than the one before."""
    if not numbers:
        return b""
    ordered = sorted(numbers)
    first = _varint(ordered[0])
    if len(ordered) == 1:
        return first
    later = islice(ordered, 1, None)
    try:
        data = bytes(map(sub, later, ordered))  # the usual case: they are near each other
    except ValueError:
        return first + _varints(list(map(sub, ordered[1:], ordered)))
    return first + (data if data.isascii() else _varints(list(data)))


def _sums(deltas: Iterable[int]) -> Iterator[int]:
    total = 0
    for delta in deltas:
        total += delta
        yield total


def _varints(values: Sequence[int]) -> bytes:
    if not values or max(values) < 0x80:
        return bytes(values)  # the usual case: each value is its own varint
    return b"".join([_varint(value) for value in values])


def _varint(value: int) -> bytes:
    if value < 0x80:
        return _ONE_BYTE[value]
    if value < 0x4000:  # these two are nearly all that come here, and a loop takes three times as long
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    return bytes((value & 0x7F | 0x80,)) + _varint(value >> 7)


def _read_varints(data: bytes) -> list[int]:
    if not data or max(data) < 0x80:
        return list(data)
    values, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        if byte & 0x80:
            shift += 7
        else:
            values.append(value)
            value = shift = 0
    return values


def _squeeze(data: bytes) -> bytes:
    if len(data) < WORTH_DEFLATING:
        return _PLAIN + data
    deflater = zlib.compressobj(1, memLevel=1)  # a small state: making it is most of the cost
    small = deflater.compress(data) + deflater.flush()
    return _DEFLATED + small if len(small) < len(data) else _PLAIN + data


def _expand(data: bytes) -> bytes:
    return zlib.decompress(data[1:]) if data[:1] == _DEFLATED else data[1:]
