"""Planner: what the next step does. Asks the policy who, batching how many tokens, allocation whether it fits.

Knows no output and no clock but the `now` that it is told. The order within a step: urgent candidates take the place of
others, decodes get their blocks, prefills that began go on, the queue is admitted until one thing binds. Whoever must
yield is chosen before anything changes: nothing is ever rolled back.
Invariant: planned tokens ≤ the step's budget, and every decode is planned.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.allocation import Allocation
from scheduler.core.batching import Batching
from scheduler.core.lifecycle import Lifecycle
from scheduler.core.plan import Chunk, StepPlan
from scheduler.core.request import NO_WAITS, Request, WaitReason
from scheduler.core.waits import alone

URGENT_PER_STEP = 4


class Planner:
    """Fills a StepPlan. `batching` and `allocation` are replaced when limits change."""

    def __init__(self, life: Lifecycle, batching: Batching, allocation: Allocation) -> None:
        self._life = life
        self.batching = batching
        self.allocation = allocation
        self._counted: tuple[WaitReason, int, tuple[int, ...]] = (WaitReason.STEP, 0, NO_WAITS)

    def fill(self, plan: StepPlan) -> None:
        """Plan the step."""
        life = self._life
        batch_open = self.batching.static and life.running > 0
        if life.policy.preempts and life.waiting and not batch_open:
            self._displace(plan)
        urgent = plan.preempted
        self._grow_decodes(plan)
        self._continue_prefills(plan)
        if plan.preempted > urgent:
            plan.binding = WaitReason.KV_BLOCKS
        else:
            plan.binding = self._admit(plan, batch_open)
        plan.changed = life.group.settle()
        plan.decodes, plan.decode_numbers = life.group.members, life.group.numbers
        plan.context = life.group.context
        plan.token_budget = self.batching.step_budget(len(plan.decodes))
        plan.running = life.running
        plan.waiting_by_reason = self._count(plan.binding)

    def _left(self, plan: StepPlan) -> int:
        return self.batching.budget - len(self._life.group) - plan.prefill_tokens

    def _chunk(self, plan: StepPlan, r: Request, tokens: int) -> None:
        plan.chunks.append(Chunk(r, r.computed, tokens, tokens == r.missing))
        self._life.chunk_begins(r, tokens, plan.started_at)

    # ---- urgency

    def _displace(self, plan: StepPlan) -> None:
        """The policy's head takes the place of running requests, if the policy says so; a few a step.

        The candidate is admitted at once, so that what was taken for it is never left unused; it must therefore fit,
        beside what the decodes need in this step, once the victims are gone.
        """
        life, now = self._life, plan.started_at
        candidates = self._may_yield(plan)
        for _ in range(URGENT_PER_STEP):
            head = life.policy.head(now)
            if head is None or life.running > life.slots.limit:
                return
            hits, wanted = life.hits(head), self.allocation.wanted(head)
            victims = self._victims(candidates, head, hits, wanted, plan.step)
            if not victims:
                return
            left = self._left(plan) + sum([victim in life.group for victim in victims])
            tokens = self.batching.first_piece(len(head.tokens) - len(hits) * life.pool.size, left, not plan.chunks)
            if tokens <= 0:
                return
            for victim in victims:
                plan.events.append(life.preempt(victim, True, now))
                candidates.remove(victim)
            plan.preempted += len(victims)
            self._enter(plan, head, hits, wanted, tokens)

    def _victims(self, candidates: Sequence[Request], head: Request, hits: list[int], wanted: int, step: int) -> list[Request]:
        """Who must yield for `head` to fit; nobody if it fits as things are, or cannot be made to fit."""
        life, victims = self._life, list[Request]()
        spare = life.group.needy(step)
        while life.running - len(victims) >= life.slots.limit or not self._fits(victims, hits, wanted, spare):
            if len(victims) == URGENT_PER_STEP:
                return []
            victim = life.policy.victim([r for r in candidates if r not in victims], head)
            if victim is None:
                return []
            victims.append(victim)
        return victims

    def _fits(self, victims: list[Request], hits: list[int], wanted: int, spare: int) -> bool:
        return self.allocation.fits_after(wanted, hits, [victim.blocks for victim in victims], spare)

    def _may_yield(self, plan: StepPlan) -> list[Request]:
        """Nobody is preempted twice without a token in between, nor in the step that admitted it."""
        life = self._life
        running = [*life.group.everyone(), *life.prefilling.values()]
        return [r for r in running if (r.progressed or not r.preemptions) and r.number not in life.in_step]

    # ---- the running

    def _grow_decodes(self, plan: StepPlan) -> None:
        """Blocks for the decodes whose last one is full; when none is left, somebody yields."""
        life, size = self._life, self._life.pool.size
        for r in life.group.needing(plan.step):
            while r in life.group and len(r.tokens) > len(r.blocks) * size:
                if life.pool.free:
                    life.grow(r)
                else:
                    victim = life.policy.victim(self._may_yield(plan), r) or r
                    plan.events.append(life.preempt(victim, False, plan.started_at))
                    plan.preempted += 1

    def _continue_prefills(self, plan: StepPlan) -> None:
        """Prefills that began before this step go on, in the order of admission; they hold their blocks already."""
        life = self._life
        if not life.prefilling:
            return
        left = self._left(plan)
        for r in life.prefilling.values():
            if left <= 0:
                break
            if r.number not in life.in_step:
                tokens = self.batching.next_piece(r.missing, left)
                self._chunk(plan, r, tokens)
                left -= tokens

    # ---- the waiting

    def _admit(self, plan: StepPlan, batch_open: bool) -> WaitReason:
        """Admit in the policy's order until one thing binds; that is what all the others wait for."""
        life, left = self._life, self._left(plan)
        while life.waiting:
            if batch_open:
                return WaitReason.STATIC_BATCH
            if life.slots.full:
                return WaitReason.SLOTS
            head = life.policy.head(plan.started_at)
            if head is None:
                break
            if left <= 0:
                return WaitReason.TOKEN_BUDGET
            hits, wanted = life.hits(head), self.allocation.wanted(head)
            if not self.allocation.fits(wanted, hits, not life.running):
                return WaitReason.KV_BLOCKS
            tokens = self.batching.first_piece(len(head.tokens) - len(hits) * life.pool.size, left, not plan.chunks)
            if not tokens:
                return WaitReason.TOKEN_BUDGET
            self._enter(plan, head, hits, wanted, tokens)
            left -= tokens
        return WaitReason.STEP

    def _enter(self, plan: StepPlan, head: Request, hits: list[int], wanted: int, tokens: int) -> None:
        plan.events.append(self._life.admit(head, hits, wanted, plan.started_at))
        self._chunk(plan, head, tokens)

    def _count(self, binding: WaitReason) -> tuple[int, ...]:
        """Who waits, by reason: all for the binding one."""
        waiting = self._life.waiting
        if self._counted[:2] != (binding, waiting):
            self._counted = (binding, waiting, alone(binding, waiting))
        return self._counted[2]
