"""ScriptedEngine: a toy continuous batcher that speaks core events, for tests of what folds and draws them.

First come, first served; chunked prefill; blocks on demand; the youngest is preempted when blocks run out. It shares no
line with the scheduler, so a fold that agrees with it agrees with the vocabulary, not with one author's code.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from scheduler.core import events as ev
from scheduler.core.request import FinishReason, WaitReason

MS = 1_000_000
BLOCK = 16
SETTINGS: tuple[tuple[str, object], ...] = (("policy", "fcfs"), ("max_num_seqs", 16), ("max_num_batched_tokens", 256))


@dataclass(slots=True)
class Job:
    """One request of the script."""

    number: int
    id: str
    received_at: int
    prompt: int
    output: int
    slot: int = -1
    computed: int = 0
    made: int = 0
    preemptions: int = 0

    @property
    def blocks(self) -> int:
        return -(-self.computed // BLOCK)

    @property
    def missing(self) -> int:
        return self.prompt + self.made - self.computed

    @property
    def decoding(self) -> bool:
        return self.made > 0 and self.missing == 1


class ScriptedEngine:
    """`submit` and `step` return the events that an engine would send."""

    def __init__(self, *, boot: int = 1, slots: int = 16, blocks: int = 384, budget: int = 256, start: int = 0) -> None:
        self.boot, self.slots, self.blocks, self.budget = boot, slots, blocks, budget
        self.now, self.seq, self.steps = start, 0, 0
        self.waiting: deque[Job] = deque()
        self.running: list[Job] = []
        self.preempted: list[Job] = []

    @property
    def used(self) -> int:
        return sum(job.blocks for job in self.running)

    def key(self, at: int | None = None) -> tuple[int, int, int]:
        self.seq += 1
        return self.boot, self.seq, self.now if at is None else at

    def begin(self, wall: int = 1_700_000_000_000 * MS) -> ev.Event:
        size = (self.blocks, BLOCK)
        return ev.EngineStarted(*self.key(), wall, self.now, SETTINGS, *size, "simulated", "h100-toy", "simulated")

    def submit(self, id: str, *, prompt: int = 100, output: int = 20, tenant: str = "a", kind: str = "interactive") -> ev.Event:
        boot, seq, at = self.key()
        self.waiting.append(Job(seq, id, at, prompt, output))
        return ev.RequestQueued(boot, seq, at, id, at, prompt, output, tenant, kind, 0, None, None)

    def step(self) -> list[ev.Event]:
        """Plan, run and commit one step."""
        started, found = self.now, []
        decodes = [job for job in self.running if job.decoding]
        found += self._preempt(decodes)
        decodes = [job for job in decodes if job in self.running]
        left = self.budget - len(decodes)
        chunks: list[tuple[Job, int]] = []
        for job in self.running:
            if not job.decoding and left > 0:
                chunks.append((job, min(job.missing, left)))
                left -= chunks[-1][1]
        binding = self._admit(found, chunks, left)
        reasons = [0] * len(WaitReason)
        reasons[binding] = len(self.waiting)
        tokens = len(decodes) + sum(size for _, size in chunks)
        self.now = started + int((4 + tokens * 0.06) * MS)
        return found + self._commit(started, decodes, chunks, binding, tuple(reasons))

    def _preempt(self, decodes: list[Job]) -> list[ev.Event]:
        needed = sum(job.computed % BLOCK == 0 for job in decodes)
        found: list[ev.Event] = []
        while self.used + needed > self.blocks:
            victim = self.running.pop()
            found.append(ev.RequestPreempted(*self.key(), victim.number, victim.slot, victim.blocks, victim.computed, False))
            victim.computed, victim.slot, victim.preemptions = 0, -1, victim.preemptions + 1
            self.preempted.append(victim)
        return found

    def _admit(self, found: list[ev.Event], chunks: list[tuple[Job, int]], left: int) -> WaitReason:
        if any(isinstance(event, ev.RequestPreempted) for event in found):
            return WaitReason.KV_BLOCKS
        planned = self.used + sum(-(-size // BLOCK) for _, size in chunks)
        while self.preempted or self.waiting:
            job = (self.preempted or self.waiting)[0]
            need = job.missing
            if len(self.running) >= self.slots:
                return WaitReason.SLOTS
            if left <= 0:
                return WaitReason.TOKEN_BUDGET
            if planned + -(-need // BLOCK) + 4 > self.blocks:
                return WaitReason.KV_BLOCKS
            planned += -(-need // BLOCK)
            resumed = bool(self.preempted)
            (self.preempted.pop(0) if resumed else self.waiting.popleft())
            job.slot = min(set(range(self.slots)) - {other.slot for other in self.running})
            self.running.append(job)
            found.append(ev.RequestScheduled(*self.key(), job.number, job.slot, 0, resumed))
            chunks.append((job, min(need, left)))
            left -= chunks[-1][1]
        return WaitReason.STEP

    def _commit(
        self, started: int, decodes: list[Job], chunks: list[tuple[Job, int]], binding: WaitReason, reasons: tuple[int, ...]
    ) -> list[ev.Event]:
        found: list[ev.Event] = []
        running = len(self.running)
        rows = []
        for job, size in chunks:
            job.computed += size
            rows.append((job.number, size, int(job.missing == 0)))
            if rows[-1][2] and not job.made:
                found.append(ev.FirstToken(*self.key(), job.number))
        for job in decodes:
            job.computed += 1
        gaining = decodes + [job for (job, _), row in zip(chunks, rows, strict=True) if row[2]]
        for job in gaining:
            job.made += 1
            if job.made >= job.output:
                self.running.remove(job)
                found.append(self._finish(job))
        numbers = tuple(job.number for job in decodes)
        evicted = sum(job.preemptions > 0 and job.slot < 0 for job in self.preempted)
        free = self.blocks - self.used
        self.steps += 1
        head = (self.steps, started, self.now, self.budget, binding, reasons, running, evicted, free)
        return [*found, ev.StepCompleted(*self.key(), *head, numbers, tuple(rows))]

    def _finish(self, job: Job) -> ev.Event:
        parts = ev.Parts((0,) * len(WaitReason), 0, self.now - job.received_at, 0, 0)
        made = (job.prompt, 0, job.made, job.preemptions, parts)
        return ev.RequestFinished(*self.key(), job.number, job.id, job.slot, FinishReason.LENGTH, None, *made)
