"""Lifecycle: every lawful move of a request, with the books that go with it. Decides nothing.

The moves are made here and nowhere else: state, slot, blocks, time and the event that reports them change together.
It does not know budgets, limits or plans. Invariants: a live request is in exactly one of the policy's queue,
`parked`, `prefilling` and `group`; its time up to `since` is booked under exactly one part, so that the parts of a finished
request sum to its E2E.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from scheduler.core.blockers import Holdings
from scheduler.core.blocks import BlockPool, contents
from scheduler.core.decode_group import DecodeGroup
from scheduler.core.events import (
    Event,
    FirstToken,
    Parts,
    RequestFinished,
    RequestParked,
    RequestPreempted,
    RequestQueued,
    RequestScheduled,
    RequestUnparked,
)
from scheduler.core.holders import Blockers
from scheduler.core.overtaking import Overtaking
from scheduler.core.parked import Parked
from scheduler.core.policies.base import Departure, Policy
from scheduler.core.quotas import Quotas
from scheduler.core.request import LAWFUL, FinishReason, Request, RequestState, WaitReason
from scheduler.core.slots import Slots
from scheduler.core.timeouts import Timeouts
from scheduler.core.waits import WaitClocks, alone, together

E = TypeVar("E", bound=Event)


def _move(request: Request, state: RequestState) -> None:
    assert state in LAWFUL[request.state], f"{request} cannot become {state.value}"
    request.state = state


class Lifecycle:
    """The requests of one engine life, and their moves."""

    def __init__(self, pool: BlockPool, policy: Policy, slots: Slots, longest: int, boot: int) -> None:
        self.boot = boot
        self.seq = 0
        self.pool = pool
        self.policy = policy
        self.slots = slots
        self.longest = longest
        self.group = DecodeGroup(pool.size, longest)
        self.clocks = WaitClocks()
        self.timeouts = Timeouts()
        self.requests: dict[str, Request] = {}
        self.prefilling: dict[int, Request] = {}  # by number, in the order of admission
        self.in_step: dict[int, Request] = {}  # prefilling requests of which the open step computes a chunk
        self.waiting = 0
        self.open = 0  # of the waiting, those in the policy's queue: they wait for what binds everybody
        self.running = 0  # requests that hold a slot
        self.waiting_tokens = 0
        self.parked = Parked()
        self.quotas = Quotas()
        self.overtaking = Overtaking()
        self.held = Holdings()

    def event(self, kind: Callable[..., E], at: int, *values: Any) -> E:
        """The next event."""
        self.seq = seq = self.seq + 1
        return kind(self.boot, seq, at, *values)

    # ---- waiting

    def queue(self, r: Request, now: int) -> RequestQueued:
        """A new request waits. Until now it travelled, or its engine was down."""
        assert r.received_at <= now, f"{r} was received at {r.received_at}, after {now}"
        self._book_travel(r, now)
        self.requests[r.id] = r
        event = self.event(
            RequestQueued, now, r.id, r.received_at, r.prompt_tokens, r.params.max_tokens,
            r.tenant, r.kind, r.priority, r.deadline_at, r.run,
        )  # fmt: skip
        r.number = event.seq
        r.arrival = self.overtaking.arrive()
        self.timeouts.add(r)
        if not self.waiting and self.clocks.reason is not WaitReason.PAUSED:
            self.clocks.switch(WaitReason.STEP, now)  # nobody waits, so nothing holds it back that is known of
        self._wait(r, now)
        return event

    def refuse(self, r: Request, detail: str, now: int) -> RequestFinished:
        """A new request is turned away; it never becomes a live one."""
        assert r.received_at <= now, f"{r} was received at {r.received_at}, after {now}"
        self._book_travel(r, now)
        _move(r, RequestState.FINISHED)
        return self._finished(r, FinishReason.REJECTED, detail, -1, now)

    def _book_travel(self, r: Request, now: int) -> None:
        r.waits = alone(WaitReason.ENGINE_DOWN if r.resubmitted else WaitReason.STEP, now - r.received_at)
        r.since = now

    def _wait(self, r: Request, now: int) -> None:
        if not r.preemptions:
            r.wait_mark = self.clocks.read(now)
        self.waiting += 1
        self.open += 1
        self.waiting_tokens += r.prompt_tokens
        self.policy.enqueue(r, now)

    def _wait_ends(self, r: Request, why: Departure, now: int) -> None:
        self.waiting -= 1
        self.waiting_tokens -= r.prompt_tokens
        parked = r.parked is not None
        if parked:
            self._parking_ends(r, now, queued=False)
        else:
            self.open -= 1
            self.policy.dequeue(r, why)
            if why is Departure.GONE:
                self.quotas.gone(r)
        if r.state is RequestState.PREEMPTED:
            r.preempted_ns += now - r.since
        else:
            if not parked:
                r.waits = together(r.waits, self.clocks.since(r.wait_mark, now))
            r.overtaken = self.overtaking.leave(r.arrival, why is Departure.ADMITTED)
        r.since = now

    def park(self, r: Request, cause: WaitReason, now: int, blockers: Blockers | None = None) -> RequestParked:
        """`r` leaves the policy's queue for a cause of its own; until it is back or ends, it waits for that alone.

        `blockers`: who holds what it lacks. What a preempted request waits for is booked as preempted, wherever it waits.
        """
        self.policy.dequeue(r, Departure.PARKED)
        self.open -= 1
        self.quotas.gone(r)
        if r.state is not RequestState.PREEMPTED:
            r.waits = together(r.waits, self.clocks.since(r.wait_mark, now))
            r.since = now
        self.parked.add(r, cause)
        if cause is WaitReason.QUOTA:
            self.quotas.parked(r)
        return self.event(RequestParked, now, r.number, cause, blockers)

    def unpark(self, r: Request, now: int) -> RequestUnparked:
        """`r` is back in the policy's queue, in its old place, and shares what binds everybody again."""
        cause = r.parked
        self._parking_ends(r, now, queued=True)
        if r.state is not RequestState.PREEMPTED:
            r.wait_mark = self.clocks.read(now)
        r.parked = cause  # so that the policy sees whence it comes
        self.policy.enqueue(r, now)
        r.parked = None
        self.open += 1
        return self.event(RequestUnparked, now, r.number)

    def _parking_ends(self, r: Request, now: int, queued: bool) -> None:
        cause = self.parked.remove(r)
        if cause is WaitReason.QUOTA:
            self.quotas.back(r, queued)
        if r.state is not RequestState.PREEMPTED:
            r.waits = together(r.waits, alone(cause, now - r.since))
            r.since = now

    def waiting_by_reason(self, binding: WaitReason) -> tuple[int, ...]:
        """How many wait for what: the open queue for `binding`, the parked ones for causes of their own."""
        everybody = alone(binding, self.open)
        return together(everybody, self.parked.by) if len(self.parked) else everybody

    # ---- running

    def hits(self, r: Request) -> list[int]:
        """Blocks that already hold a prefix of `r`. The last token is always computed: it gives the next one."""
        if not self.pool.caching:
            return []
        pool = self.pool
        return pool.match(r.tokens, (len(r.tokens) - 1) // pool.size, pool.root(r.tenant))

    def admit(self, r: Request, hits: list[int], wanted: int, now: int) -> RequestScheduled:
        """`r`, the policy's head, runs: it holds a slot and `wanted` blocks, of which `hits` hold its prefix already."""
        self._wait_ends(r, Departure.ADMITTED, now)
        resumed = r.state is RequestState.PREEMPTED
        _move(r, RequestState.RUNNING)
        r.slot = self.slots.take()
        self.pool.share(hits)
        r.blocks = hits
        r.place = self.pool.place_of(hits, self.pool.root(r.tenant))
        r.computed = len(hits) * self.pool.size
        r.blocks += self.pool.take(wanted - len(hits))
        self.quotas.admitted(r)
        self.held.slots.add(r.tenant, 1)
        self.held.blocks.add(r.tenant, len(r.blocks))
        if not resumed:
            r.cached_tokens = r.computed
        r.progressed = False
        self.running += 1
        self.prefilling[r.number] = r
        return self.event(RequestScheduled, now, r.number, r.slot, r.computed, resumed, r.overtaken)

    def grow(self, needy: Sequence[Request]) -> None:
        """One more block for each of `needy`; that there are so many was asked before."""
        for r, block in zip(needy, self.pool.take(len(needy)), strict=True):
            r.blocks.append(block)
        self.held.blocks.add_one_each([r.tenant for r in needy])

    def chunk_begins(self, r: Request, tokens: int, now: int) -> None:
        """A step computes `tokens` of `r`; until now it was stalled."""
        r.stalled_ns += now - r.since
        r.since = now
        self.in_step[r.number] = r
        self.policy.served(r, tokens)

    def chunk_ends(self, r: Request, computed: int, now: int) -> None:
        """The step has computed `r` up to `computed`; its full blocks may be shared."""
        self._chunk_booked(r, now)
        pool, first, end = self.pool, r.computed // self.pool.size, computed // self.pool.size
        if pool.caching and end > first:
            r.place = pool.publish(r.blocks[first:end], r.place, contents(r.tokens, pool.size, first, end))
        r.computed = computed

    def _chunk_booked(self, r: Request, now: int) -> None:
        del self.in_step[r.number]
        r.prefill_ns += now - r.since
        r.since = now

    def token(self, r: Request, token: int, now: int) -> FirstToken | None:
        """The last chunk of `r` is computed and gave `token`."""
        r.tokens.append(token)
        r.progressed = True
        if r.first_token_at is not None:
            return None
        r.first_token_at = now
        return self.event(FirstToken, now, r.number)

    def caught_up(self, r: Request, step: int) -> None:
        """`r` decodes from the step after `step` on."""
        del self.prefilling[r.number]
        self.group.join(r, step)
        self.held.decodes.add(r.tenant, 1)

    def publish_filled(self, step: int) -> None:
        """`step` has filled the last block of those decodes that need one in the next step."""
        filling = self.group.needing(step + 1)
        if not filling or not self.pool.caching:
            return
        size, publish = self.pool.size, self.pool.publish_one
        for r in filling:
            tokens = r.tokens
            end = len(tokens) - 1  # the newest token opens the block after it
            r.place = publish(r.blocks[end // size - 1], r.place, tokens[end - size : end].tobytes())

    def preempt(self, r: Request, urgency: bool, now: int) -> RequestPreempted:
        """`r` yields its slot and blocks and waits again. Its full blocks can be hit while nobody takes them."""
        slot, freed = r.slot, len(r.blocks)
        self._stop_running(r, now, preempted=True)
        lost, r.computed = r.computed, 0
        r.preemptions += 1
        _move(r, RequestState.PREEMPTED)
        self._wait(r, now)
        return self.event(RequestPreempted, now, r.number, slot, freed, lost, urgency)

    def _stop_running(self, r: Request, now: int, preempted: bool) -> None:
        held, tenant = self.held, r.tenant
        if r.number not in self.prefilling:
            self.group.leave(r)
            held.decodes.add(tenant, -1)
            r.decode_ns += now - r.since
        else:
            if r.number in self.in_step:
                self._chunk_booked(r, now)
            del self.prefilling[r.number]
            r.stalled_ns += now - r.since
        r.since = now
        self.running -= 1
        held.slots.add(tenant, -1)
        held.blocks.add(tenant, -len(r.blocks))
        self.quotas.stopped(r, preempted)
        self.pool.release(r.blocks)
        r.blocks = []
        self.slots.give(r.slot)
        r.slot = -1

    # ---- the end

    def finish(self, r: Request, reason: FinishReason, detail: str | None, now: int) -> RequestFinished:
        """`r` ends, from whatever state it is in."""
        slot = r.slot
        if r.state is RequestState.RUNNING:
            self._stop_running(r, now, preempted=False)
        else:
            self._wait_ends(r, Departure.GONE, now)
        _move(r, RequestState.FINISHED)
        del self.requests[r.id]
        self.timeouts.remove(r)
        return self._finished(r, reason, detail, slot, now)

    def _finished(self, r: Request, reason: FinishReason, detail: str | None, slot: int, now: int) -> RequestFinished:
        parts = Parts(r.waits, r.prefill_ns, r.decode_ns, r.stalled_ns, r.preempted_ns)
        assert parts.total == now - r.received_at, f"{r}: parts {parts} do not sum to {now - r.received_at}"
        return self.event(
            RequestFinished, now, r.number, r.id, slot, reason, detail,
            r.prompt_tokens, r.cached_tokens, r.output_tokens, r.preemptions, parts, r.overtaken,
        )  # fmt: skip

    def length_detail(self, r: Request) -> str | None:
        """Why `r` ends by length: None is its own max_tokens, else what it has outgrown."""
        if r.output_tokens >= r.params.max_tokens:
            return None
        return "kv_capacity" if self.longest == self.pool.total * self.pool.size + 1 else "context_length"
