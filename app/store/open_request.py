"""A request that has not ended, as the writer follows it: sequences in, columns of its row out. Knows no SQL.

One POST is one row although each of its sequences lives by itself: the row is admitted when its first sequence is, has
its first token when one has, and ends when all have. Its parts are those of the sequence that ended last (so that they
sum to its E2E), its tokens and preemptions are summed, its finish is the gravest of them, and it was overtaken as often
as the one of them that was overtaken most.
Columns come as tuples of absolute values, by LIVE while it is open and by FINAL when it has ended: a tuple goes to the
database as it is, a dict a row would cost more than the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from app.store.accepted import sequence_ids
from app.store.models import WAIT_COLUMNS
from scheduler.core.events import Parts
from scheduler.metrics import WAIT_REASONS

GRAVITY = ("stop", "length", "abort", "rejected", "timeout", "error")  # later is graver
LIVE = (
    "policy", "boot", "number", "state", "status_code", "scheduled_at", "first_token_at", "queue_ms", "ttft_ms", "preemptions",
    "overtaken", "id",
)  # fmt: skip
FINAL = (
    "policy", "boot", "number", "state", "status_code", "scheduled_at", "first_token_at", "queue_ms", "ttft_ms", "preemptions",
    "overtaken", "prompt_tokens", "cached_tokens", "output_tokens", "finish", "detail", "finished_at", "e2e_ms", "tpot_ms",
    "top_wait", *WAIT_COLUMNS, "prefill_ns", "decode_ns", "stalled_ns", "preempted_ns", "id",
)  # fmt: skip
Columns = tuple[Any, ...]
_STATUS = {"stop": 200, "length": 200, "timeout": 504, "error": 500}
_ENDED_WELL = ("stop", "length")
_NO_WAITS = (None,) * len(WAIT_COLUMNS)


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


@dataclass(slots=True, eq=False)
class SequenceState:
    """Where one sequence is; `number` names it within `boot`. `request` None: of a request that was never accepted here."""

    id: str
    request_id: str
    request: OpenRequest | None
    boot: int = 0
    number: int = 0
    state: str = "waiting"
    scheduled_at: int | None = None
    first_token_at: int | None = None
    preemptions: int = 0
    overtaken: int | None = None
    ending: Ending | None = None


@dataclass(slots=True, eq=False)
class OpenRequest:
    """One row in flight. `boot` and `number` are those of its first sequence, `policy` the one that it is under."""

    id: str
    received_at: int
    sequences: int = 1
    stream: bool = False
    prompt_tokens: int | None = None
    asked_policy: str | None = None
    policy: str | None = None
    status_code: int | None = None
    boot: int | None = None
    number: int | None = None
    states: dict[str, SequenceState] = field(default_factory=dict)

    def sequence(self, sequence_id: str) -> SequenceState:
        """The sequence, known from now on."""
        state = self.states.get(sequence_id)
        if state is None:
            state = self.states[sequence_id] = SequenceState(sequence_id, self.id, self)
        return state

    @property
    def unfinished(self) -> list[str]:
        """Ids of its sequences that have no ending yet."""
        if self.sequences == 1 and len(self.states) == 1:
            (only,) = self.states.values()
            return [self.id] if only.ending is None else []
        ids = sequence_ids(self.id, self.sequences)
        return [each for each in ids if each not in self.states or self.states[each].ending is None]

    def live(self) -> Columns:
        """The row while it is open, by LIVE."""
        states = self.states.values()
        scheduled, first = self._times()
        open_states = [each.state for each in states if each.ending is None and each.state != "waiting"]
        state = "running" if "running" in open_states else open_states[-1] if open_states else "waiting"
        overtaken = [each.overtaken for each in states if each.overtaken is not None]
        return (
            self.policy, self.boot, self.number, state, self.status_code, scheduled, first,
            _ms(scheduled, self.received_at), _ms(first, self.received_at), sum([each.preemptions for each in states]),
            max(overtaken) if overtaken else None, self.id,
        )  # fmt: skip

    def final(self) -> Columns:
        """The row once all sequences have ended, by FINAL."""
        if len(self.states) == 1:  # the usual case, at a third of the others' cost
            (last_state,) = self.states.values()
            end = last_state.ending
            assert end is not None
            scheduled, first, preemptions = last_state.scheduled_at, last_state.first_token_at, last_state.preemptions
            if end.preemptions > preemptions:
                preemptions = end.preemptions
        else:
            last_state, end, preemptions = self._together()
            scheduled, first = self._times()
        waits, prefill, decode, stalled, preempted = end.parts or (_NO_WAITS, None, None, None, None)
        most = 0 if end.parts is None else max(end.parts.waits)
        began, at, tokens = self.received_at, end.at, end.output_tokens
        return (
            self.policy, self.boot, self.number, "finished",
            self._status(end.reason, first) if self.status_code is None else self.status_code,
            scheduled, first, None if scheduled is None else (scheduled - began) / 1e6,
            None if first is None else (first - began) / 1e6, preemptions, None if end.parts is None else end.overtaken,
            end.prompt_tokens if self.prompt_tokens is None else self.prompt_tokens, end.cached_tokens, tokens, end.reason,
            end.detail, at, None if at is None else (at - began) / 1e6, _tpot(last_state),
            WAIT_REASONS[waits.index(most)] if most else None, *waits, prefill, decode, stalled, preempted, self.id,
        )  # fmt: skip

    def _together(self) -> tuple[SequenceState, Ending, int]:
        """Several sequences as one: the one that ended last, an ending of the whole, preemptions."""
        ended = [(each, each.ending) for each in self.states.values() if each.ending is not None]
        endings = [ending for _, ending in ended]
        last_state, last = max(ended, key=lambda pair: -1 if pair[1].at is None else pair[1].at)
        gravest = max(endings, key=lambda ending: GRAVITY.index(ending.reason))
        whole = last._replace(
            reason=gravest.reason,
            detail=gravest.detail,
            prompt_tokens=_total([ending.prompt_tokens for ending in endings]),
            cached_tokens=_total([ending.cached_tokens for ending in endings]),
            output_tokens=_total([ending.output_tokens for ending in endings]),
            overtaken=max([ending.overtaken for ending in endings]),
        )
        return last_state, whole, sum([max(each.preemptions, ending.preemptions) for each, ending in ended])

    def _times(self) -> tuple[int | None, int | None]:
        """First admission, first token: over all sequences."""
        scheduled: int | None = None
        first: int | None = None
        for each in self.states.values():
            scheduled, first = _earlier(scheduled, each.scheduled_at), _earlier(first, each.first_token_at)
        return scheduled, first

    def _status(self, reason: str, first: int | None) -> int | None:
        return 200 if self.stream and first is not None else _STATUS.get(reason)  # headers had left before it failed


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


def _tpot(state: SequenceState) -> float | None:
    end, first = state.ending, state.first_token_at
    if end is None or end.at is None or first is None or end.reason not in _ENDED_WELL:
        return None
    tokens = end.output_tokens
    return None if tokens is None or tokens < 2 else (end.at - first) / (tokens - 1) / 1e6


def _total(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
