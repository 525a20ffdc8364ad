"""Planner: what the next step does. Asks the policy who, batching how many tokens, allocation whether it fits.

Knows no output and no clock but the `now` that it is told. The order within a step: urgent candidates take the place of
others, decodes get their blocks, prefills that began go on, the queue is admitted until one thing binds. Whoever must
yield is chosen before anything changes: nothing is ever rolled back. While a batch is merged (batching.py) a step may leave
the decodes out: they stand still, and nobody yields for memory.
Invariant: planned tokens ≤ the step's budget, and every decode is planned, or none.
"""

from __future__ import annotations

from scheduler.core.allocation import Allocation
from scheduler.core.batching import Batching
from scheduler.core.budget import Budget, StepCost
from scheduler.core.head_skips import HeadSkips
from scheduler.core.lifecycle import Lifecycle
from scheduler.core.limits import Limits
from scheduler.core.plan import Chunk, StepPlan
from scheduler.core.quota_gate import QuotaGate
from scheduler.core.request import NO_WAITS, Request, WaitReason
from scheduler.core.step_room import StepRoom
from scheduler.core.victims import URGENT_PER_STEP, for_waiting, may_yield

UNBOUND = WaitReason.STEP  # by a name of our own: an attribute of an enum's class costs 80 ns (CPython 3.11)


class Planner:
    """Fills a StepPlan. `cost`: what a step takes, for an ITL target; without it that is learned."""

    batching: Batching
    allocation: Allocation

    def __init__(self, life: Lifecycle, limits: Limits, cost: StepCost | None = None) -> None:
        self._life = life
        self.budget = Budget(cost)
        self.skips = HeadSkips()
        self.gate = QuotaGate(life)
        self._room = StepRoom(self.budget)
        self._short = False  # blocks ran out, and somebody waits since
        self._stood = False  # the decodes stood still in the last step
        self._decoded = 0  # steps without prefill, since the last one with any
        self._counted: tuple[tuple[WaitReason, int, tuple[int, ...]], tuple[int, ...]] = (
            (WaitReason.STEP, 0, NO_WAITS), NO_WAITS,
        )  # fmt: skip
        self.set_limits(limits)

    def set_limits(self, limits: Limits, ceiling: int | None = None) -> None:
        """New limits from the next step on; `ceiling`: a lower token budget than theirs."""
        self.batching = Batching(limits, ceiling)
        self.allocation = Allocation(limits, self._life.pool)
        self.budget.aim(limits.itl_target_ms)
        self.skips.limit(limits.max_head_skips)

    def fill(self, plan: StepPlan) -> None:
        """Plan the step."""
        life, batching = self._life, self.batching
        batch_open = not batching.continuous and self._batch_open()
        # Who stands aside may be ready.
        newcomers = batching.apart and (life.prefilling or ((life.open or self.skips) and not batch_open))
        self._open_room(bool(newcomers and len(life.group)))
        if life.policy.preempts and life.open and not batch_open:
            self._displace(plan)
        urgent = plan.preempted
        if not self._room.still:
            self._grow_decodes(plan)
        self._continue_prefills(plan)
        if plan.preempted > urgent:
            plan.binding = WaitReason.KV_BLOCKS
        else:
            plan.binding = self._admit(plan, batch_open)
        if self._room.still and not plan.chunks:
            self._decode_after_all(plan)
        self._close(plan)

    def _batch_open(self) -> bool:
        """Is a batch under way that nobody may join in this step?"""
        life, batching = self._life, self.batching
        if batching.static:
            return life.running > 0
        if not batching.apart or not life.running:
            return False
        return bool(life.prefilling) or not batching.interrupts(life.open, len(life.group), self._decoded)

    def _open_room(self, still: bool) -> None:
        life = self._life
        self._room.open(self.batching, life.group, life.running + life.open, still)

    def _decode_after_all(self, plan: StepPlan) -> None:
        """Nobody could be let in, so there is nothing to stand still for."""
        self._open_room(still=False)
        self._grow_decodes(plan)
        if plan.preempted:
            plan.binding = WaitReason.KV_BLOCKS

    def _close(self, plan: StepPlan) -> None:
        life = self._life
        if self._room.still:
            life.group.stand_still()
            plan.changed = True
        else:
            plan.changed = life.group.settle() or self._stood
            plan.decodes, plan.decode_numbers = life.group.members, life.group.numbers
            plan.context = life.group.context
        self._stood = self._room.still
        self._short = self._short and life.waiting > 0
        self._decoded = 0 if plan.chunks else self._decoded + 1
        plan.token_budget = max(self._room.tokens, len(plan.decodes))  # while a lowered limit drains, decodes are the budget
        plan.running = life.running
        plan.waiting_by_reason = self._count(plan.binding)

    def _chunk(self, plan: StepPlan, r: Request, tokens: int) -> None:
        plan.chunks.append(Chunk(r, r.computed, tokens, tokens == r.missing))
        self._room.take(tokens, r.computed)
        self._life.chunk_begins(r, tokens, plan.started_at)

    # ---- urgency

    def _displace(self, plan: StepPlan) -> None:
        """The policy's head takes the place of running requests, if the policy says so; a few a step.

        The candidate is admitted at once, so that what was taken for it is never left unused; it must therefore fit,
        beside what the decodes need in this step, once the victims are gone.
        """
        life, now = self._life, plan.started_at
        candidates, size = may_yield(life), life.pool.size
        for _ in range(URGENT_PER_STEP):
            head = self.gate.head(now, plan.events)
            if head is None or life.running > life.slots.limit:
                return
            hits, wanted = life.hits(head), self.allocation.wanted(head)
            victims = for_waiting(life, self.allocation, candidates, head, hits, wanted, life.group.needy(plan.step))
            if not victims:
                return
            freed = 0 if self._room.still else sum([victim in life.group for victim in victims])
            tokens = self._room.first_piece(life.group, len(head.tokens), len(hits) * size, freed)
            if tokens <= 0:
                return
            for victim in victims:
                plan.events.append(life.preempt(victim, True, now))
                candidates.remove(victim)
            plan.preempted += len(victims)
            self._enter(plan, head, hits, wanted, tokens)

    # ---- the running

    def _grow_decodes(self, plan: StepPlan) -> None:
        """Blocks for the decodes whose last one is full; when none is left, somebody yields."""
        life, size = self._life, self._life.pool.size
        needing = life.group.needing(plan.step)
        if not needing:
            return
        needy = [r for r in needing if len(r.tokens) > len(r.blocks) * size]  # who reserved them has them already
        if len(needy) <= life.pool.free:
            life.grow(needy)
            return
        for r in needy:
            while r in life.group and not life.pool.free:
                victim = life.policy.victim(may_yield(life), r) or r
                plan.events.append(life.preempt(victim, False, plan.started_at))
                plan.preempted += 1
                self._short = True
            if r in life.group:
                life.grow([r])

    def _continue_prefills(self, plan: StepPlan) -> None:
        """Prefills that began before this step go on, in the order of admission; they hold their blocks already."""
        life = self._life
        if not life.prefilling:
            return
        for r in life.prefilling.values():
            if self._room.left(life.group) <= 0:
                break
            if r.number not in life.in_step:
                tokens = self._room.next_piece(life.group, r.missing, r.computed)
                if tokens:
                    self._chunk(plan, r, tokens)

    # ---- the waiting

    def _admit(self, plan: StepPlan, batch_open: bool) -> WaitReason:
        """Admit in the policy's order until one thing binds; that is what all the others wait for."""
        life = self._life
        if self.skips.aside and not batch_open:
            self._look_again(plan)
        while life.open:
            if life.slots.full and not (batch_open and self.batching.static):
                return WaitReason.SLOTS
            if batch_open:
                return WaitReason.STATIC_BATCH
            head = self.gate.head(plan.started_at, plan.events)
            if head is None:
                return WaitReason.QUOTA if life.open else WaitReason.STEP
            if self._room.left(life.group) <= 0:
                return self._room.bound_by
            hits, wanted = life.hits(head), self.allocation.wanted(head)
            lacking = self.allocation.lacking(wanted, hits, not life.running, self._spare(plan, head))
            if not lacking:
                tokens = self._room.first_piece(life.group, len(head.tokens), len(hits) * life.pool.size)
                if not tokens:
                    return self._room.bound_by
                self._enter(plan, head, hits, wanted, tokens)
            elif not self._step_aside(plan, head, lacking):
                needed = wanted - len(hits) + life.pool.free - life.pool.room(hits)
                plan.head, plan.needed, plan.kept = head.number, needed, lacking + life.pool.free - needed
                return WaitReason.KV_BLOCKS
        return UNBOUND

    def _spare(self, plan: StepPlan, head: Request) -> int:
        """Blocks that the running are about to need, beyond those of this step."""
        life = self._life
        if self._short:
            ends = life.group.first_end(plan.step) or head.params.max_tokens
            return self.allocation.growth(life.running, min(ends, head.params.max_tokens - head.output_tokens))
        return life.group.needy(plan.step) if self._room.still else 0

    def _enter(self, plan: StepPlan, head: Request, hits: list[int], wanted: int, tokens: int) -> None:
        plan.events.append(self._life.admit(head, hits, wanted, plan.started_at))
        self._chunk(plan, head, tokens)
        if self.skips:
            for r in self.skips.passed():
                plan.events.append(self._life.unpark(r, plan.started_at))

    def _step_aside(self, plan: StepPlan, head: Request, lacking: int) -> bool:
        """`head` lacks blocks: may it be passed by those behind it? Where it may displace others, it waits for those."""
        life = self._life
        if life.policy.preempts or life.open == 1 or not self.skips.may_pass(head):
            return False
        plan.events.append(life.park(head, WaitReason.KV_BLOCKS, plan.started_at))
        self.skips.put(head, life.pool.free + lacking)
        return True

    def _look_again(self, plan: StepPlan) -> None:
        """Those who stand aside and for whom memory may be free now are in the queue again, each in its place."""
        for r in self.skips.ready(self._life.pool.free, not self._life.running):
            plan.events.append(self._life.unpark(r, plan.started_at))

    def _count(self, binding: WaitReason) -> tuple[int, ...]:
        """Who waits, by reason: the open queue for the binding one."""
        life = self._life
        now = (binding, life.open, life.parked.by)
        before, counts = self._counted
        if before != now:
            counts = life.waiting_by_reason(binding)
            self._counted = now, counts
        return counts
