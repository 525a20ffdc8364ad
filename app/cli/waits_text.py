"""What a request waited for and who held it, as text: by reason, then stretch by stretch. Knows the API's JSON.

The sums say the exact ms that the scheduler booked, where it has: stretches are made of steps, and a hold has no step.
Invariant: neighbouring stretches of one reason count as one, as on the page; what is left out is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from app.cli.terminal import number, table
from app.percents import percents

MOST_STRETCHES = 40
MOST_NAMES = 5
Stretch = Mapping[str, Any]
COLUMNS = [("from", "from ms"), ("to", "to ms"), ("for", "waited for"), ("held", "held by")]


@dataclass(slots=True)
class Sum:
    """Of one reason. held: by tenant, amount × ms; None: all tenants that the records do not name."""

    ms: float = 0.0
    stretches: int = 0
    held: dict[str | None, float] = field(default_factory=dict)


def waits_text(request: Mapping[str, Any], *, every: bool = False) -> str:
    """Both, or "" where it never waited. every: no stretch is left out."""
    stretches = request.get("waited") or []
    if not stretches:
        return ""
    shown = stretches if every else stretches[:MOST_STRETCHES]
    rows = [
        {
            "from": one["from_ms"],
            "to": one["to_ms"],
            "for": one["reason"],
            "held": held_by(one["blockers"], request.get("number")),
        }
        for one in shown
    ]
    count = f"{len(shown)} of {len(stretches)}, --all" if len(shown) < len(stretches) else str(len(stretches))
    return "\n".join(["Waits", *_sums(request, stretches), "", f"Who held what when ({count})", table(rows, COLUMNS)])


def _sums(request: Mapping[str, Any], stretches: Sequence[Stretch]) -> Iterator[str]:
    """A line a reason, the longest first: `1 stretch, kv_blocks 12573 ms: b 72 %, a 28 %`."""
    sums = _by_reason(stretches, request.get("e2e_ms") or request.get("age_ms") or 0.0)
    for reason, ms in (request.get("waits") or {}).items():
        if ms:
            sums.setdefault(reason, Sum()).ms = ms
    for reason, one in sorted(sums.items(), key=lambda pair: -pair[1].ms):
        often = f"{one.stretches} stretch{'' if one.stretches == 1 else 'es'}, " if one.stretches else ""
        held = _shares(one.held)
        yield f"{often}{reason} {number(one.ms)} ms{held and f': {held}'}"


def _by_reason(stretches: Sequence[Stretch], until: float) -> dict[str, Sum]:
    """until: where one that goes on has got to, ms since the request came."""
    sums: dict[str, Sum] = {}
    for one in stretches:
        mine = sums.setdefault(one["reason"], Sum())
        length = (until if one["to_ms"] is None else one["to_ms"]) - one["from_ms"]
        mine.ms += length
        for tenant, amount in _holders(one["blockers"]):
            mine.held[tenant] = mine.held.get(tenant, 0.0) + amount * length
    sums[stretches[0]["reason"]].stretches += 1
    for before, one in pairwise(stretches):
        sums[one["reason"]].stretches += (before["reason"], before["sequence"]) != (one["reason"], one["sequence"])
    return sums


def _holders(blockers: Mapping[str, Any] | None) -> Iterator[tuple[str | None, float]]:
    if blockers is not None:
        yield from ((one["tenant"], one["amount"]) for one in blockers["holders"])
        if blockers["rest"]:
            yield None, blockers["rest"]


def _shares(held: Mapping[str | None, float]) -> str:
    """Who held most first; where nobody held anything, nothing."""
    whole = sum(held.values())
    if not whole:
        return ""
    names = sorted(held, key=lambda tenant: -held[tenant])
    said = percents([held[tenant] / whole for tenant in names])
    shown = [f"{'others' if name is None else name} {share} %" for name, share in zip(names, said, strict=True)]
    more = len(shown) - MOST_NAMES
    return ", ".join(shown[:MOST_NAMES]) + (f", {more} more" if more > 0 else "")


def held_by(blockers: Mapping[str, Any] | None, asks: int | None = None) -> str:
    """A set in one line: `12 of 16 slots: ann 9, bob 3`. asks: the number of the request that waited: it may be the next in
    line itself."""
    if blockers is None:
        return ""
    holders, unit, limit = blockers["holders"], blockers["unit"], blockers["limit"]
    names = [f"{one['tenant']} {one['amount']}" for one in holders]
    if blockers["rest"]:
        names.append(f"others {blockers['rest']}")
    if unit == "requests":
        running = f"{names[0]} of {limit} running" if limit else f"{names[0]} running"
        most = blockers["max_tokens"]
        return running + (f", {blockers['tokens']} of {most} tokens (it needs {blockers['needed']})" if most else "")
    total = sum(amount for _, amount in _holders(blockers))
    if unit != "blocks":
        return f"{total:.0f} of {limit} {unit}: {', '.join(names)}"
    return _blocks(blockers, names, total, asks)


def _blocks(blockers: Mapping[str, Any], names: Sequence[str], total: float, asks: int | None) -> str:
    limit, free = blockers["limit"], blockers["free"]
    again = total - (limit - free)
    shared = f" ({again:.0f} more than in use: a block that requests share counts for each)" if again > 0 else ""
    kept = f", {blockers['kept']} of them kept" if blockers["kept"] else ""
    head = blockers.get("head")
    needs = f"; {'it' if asks is not None and head == asks else 'next in line'} needs {blockers['needed']}, {free} free{kept}"
    if not head:
        needs = f"; memory ran out for the running, {free} free{kept}"
    return f"{limit - free} of {limit} blocks in use: {', '.join(names)}{shared}{needs}"
