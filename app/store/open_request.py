"""A request that has not ended, as the writer follows it: sequences in, columns of its row out. Knows no SQL.

One POST is one row although each of its sequences lives by itself: the row is admitted when its first sequence is, has
its first token when one has, and ends when all have. Its parts are those of the sequence that ended last (so that they
sum to its E2E), its tokens and preemptions are summed, its finish is the gravest of them, and it was overtaken as often
as the one of them that was overtaken most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from app.store.accepted import sequence_ids
from app.store.models import WAIT_COLUMNS
from scheduler.core.events import Parts
from scheduler.metrics import WAIT_REASONS

GRAVITY = ("stop", "length", "abort", "rejected", "timeout", "error")  # later is graver
_ENDED_WELL = ("stop", "length")


class Ending(NamedTuple):
    """How one sequence ended. `at` and `parts` are None where nobody can know them."""

    at: int | None
    reason: str
    detail: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    preemptions: int = 0
    parts: Parts | None = None
    overtaken: int = 0


@dataclass(slots=True)
class SequenceState:
    """Where one sequence is; `number` names it within `boot`."""

    boot: int = 0
    number: int = 0
    state: str = "waiting"
    scheduled_at: int | None = None
    first_token_at: int | None = None
    preemptions: int = 0
    overtaken: int | None = None
    ending: Ending | None = None


@dataclass(slots=True)
class OpenRequest:
    """One row in flight."""

    id: str
    received_at: int
    sequences: int = 1
    stream: bool = False
    prompt_tokens: int | None = None
    policy: str | None = None
    status_code: int | None = None
    states: dict[str, SequenceState] = field(default_factory=dict)

    def sequence(self, sequence_id: str) -> SequenceState:
        """The sequence, known from now on."""
        state = self.states.get(sequence_id)
        if state is None:
            state = self.states[sequence_id] = SequenceState()
        return state

    @property
    def unfinished(self) -> list[str]:
        """Ids of its sequences that have no ending yet."""
        if self.sequences == 1 and len(self.states) == 1:
            (only,) = self.states.values()
            return [self.id] if only.ending is None else []
        ids = sequence_ids(self.id, self.sequences)
        return [each for each in ids if each not in self.states or self.states[each].ending is None]

    def live_columns(self) -> dict[str, object]:
        """The row while it is open."""
        scheduled, first, preemptions = self._times()
        state = "waiting"
        for each in self.states.values():
            if each.ending is None and state != "running" and each.state != "waiting":
                state = each.state
        return {
            "state": state,
            "scheduled_at": scheduled,
            "first_token_at": first,
            "queue_ms": _ms(scheduled, self.received_at),
            "ttft_ms": _ms(first, self.received_at),
            "preemptions": preemptions,
            "overtaken": max([each.overtaken for each in self.states.values() if each.overtaken is not None], default=None),
        }

    def _times(self) -> tuple[int | None, int | None, int]:
        """First admission, first token, preemptions: over all sequences."""
        if len(self.states) == 1:
            (only,) = self.states.values()
            return only.scheduled_at, only.first_token_at, only.preemptions
        scheduled, first, preemptions = None, None, 0
        for each in self.states.values():
            preemptions += each.preemptions
            scheduled, first = _earlier(scheduled, each.scheduled_at), _earlier(first, each.first_token_at)
        return scheduled, first, preemptions

    def final_columns(self) -> dict[str, object]:
        """The row once all sequences have ended."""
        ended = [(each, each.ending) for each in self.states.values() if each.ending is not None]
        endings = [ending for _, ending in ended]
        last_state, last, gravest = *ended[0], endings[0]
        if len(ended) > 1:
            last_state, last = max(ended, key=lambda pair: -1 if pair[1].at is None else pair[1].at)
            gravest = max(endings, key=lambda ending: GRAVITY.index(ending.reason))
        scheduled, first, _ = self._times()
        columns = parts_columns(last.parts)
        columns.update(
            state="finished",
            scheduled_at=scheduled,
            first_token_at=first,
            queue_ms=_ms(scheduled, self.received_at),
            ttft_ms=_ms(first, self.received_at),
            finish=gravest.reason,
            detail=gravest.detail,
            finished_at=last.at,
            e2e_ms=_ms(last.at, self.received_at),
            tpot_ms=_tpot(last_state, last),
            cached_tokens=_total([ending.cached_tokens for ending in endings]),
            output_tokens=_total([ending.output_tokens for ending in endings]),
            preemptions=sum([max(each.preemptions, ending.preemptions) for each, ending in ended]),
            overtaken=max([ending.overtaken for ending in endings]) if last.parts is not None else None,
            status_code=self._status(gravest.reason),
        )
        if self.prompt_tokens is None:
            columns["prompt_tokens"] = _total([ending.prompt_tokens for ending in endings])
        return columns

    def _status(self, reason: str) -> int | None:
        if self.status_code is not None:
            return self.status_code
        if self.stream and any(each.first_token_at is not None for each in self.states.values()):
            return 200  # headers had left before it failed
        return {"stop": 200, "length": 200, "timeout": 504, "error": 500}.get(reason)


def parts_columns(parts: Parts | None) -> dict[str, object]:
    """wait_…_ns, prefill_ns, …, top_wait; all NULL where the parts are unknown."""
    if parts is None:
        names = (*WAIT_COLUMNS, "prefill_ns", "decode_ns", "stalled_ns", "preempted_ns", "top_wait")
        return dict.fromkeys(names)
    waits, prefill, decode, stalled, preempted = parts
    columns: dict[str, object] = dict(zip(WAIT_COLUMNS, waits, strict=True))
    most = max(waits)
    columns["prefill_ns"], columns["decode_ns"] = prefill, decode
    columns["stalled_ns"], columns["preempted_ns"] = stalled, preempted
    columns["top_wait"] = WAIT_REASONS[waits.index(most)] if most > 0 else None
    return columns


def waits_ms(row: Mapping[str, object]) -> dict[str, float]:
    """{reason: ms} of a row of `requests`, only what is above zero."""
    found = ((reason, row[column]) for reason, column in zip(WAIT_REASONS, WAIT_COLUMNS, strict=True))
    return {reason: value / 1e6 for reason, value in found if isinstance(value, int) and value > 0}


def _ms(at: int | None, since: int) -> float | None:
    return None if at is None else (at - since) / 1e6


def _earlier(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _tpot(state: SequenceState, ending: Ending) -> float | None:
    tokens = ending.output_tokens
    if ending.reason not in _ENDED_WELL or ending.at is None or state.first_token_at is None or tokens is None or tokens < 2:
        return None
    return (ending.at - state.first_token_at) / (tokens - 1) / 1e6


def _total(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
