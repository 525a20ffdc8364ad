"""Committer: what a step's output means. Tokens are appended, full blocks published, requests ended, the step reported.

Knows no queue and no budget. A request that ended while the step ran takes nothing from it.
Invariant: a block is published only here, only when it is full, and never for a row that erred.
"""

from __future__ import annotations

from scheduler.core.events import Event, StepCompleted
from scheduler.core.lifecycle import Lifecycle
from scheduler.core.plan import Chunk, StepOutput, StepPlan
from scheduler.core.request import FinishReason, Request, RequestState


class Committer:
    """Applies a StepOutput to the plan that it belongs to."""

    def __init__(self, life: Lifecycle) -> None:
        self._life = life

    def apply(self, plan: StepPlan, output: StepOutput, now: int) -> list[Event]:
        """The events of the step, StepCompleted last."""
        assert len(output.tokens) >= len(plan.decodes), "the runner returned fewer tokens than rows"
        events: list[Event] = []
        life = self._life
        failed = self._decodes(plan, output, now, events)
        chunks = self._chunks(plan, output, now, events) if plan.chunks else ()
        assert not life.in_step, "a planned chunk was not accounted for"
        life.seq = seq = life.seq + 1  # as life.event does: a call with so many values passed on costs as much again
        events.append(
            StepCompleted(
                life.boot, seq, now, plan.step, plan.started_at, now, plan.token_budget, plan.binding, plan.waiting_by_reason,
                plan.running, plan.preempted, life.pool.free, plan.decode_numbers, chunks, failed, plan.blockers,
            )
        )  # fmt: skip
        return events

    # ---- decodes

    def _decodes(self, plan: StepPlan, output: StepOutput, now: int, events: list[Event]) -> tuple[int, ...]:
        """All decodes at once; returns the numbers of those that emitted nothing."""
        life, rows = self._life, len(plan.decodes)
        if not rows:
            life.policy.tick((), plan.changed)
            return ()
        failed = {row: detail for row, detail in output.errors.items() if row < rows} if output.errors else {}
        without = life.group.append(output.tokens, failed)
        for row in sorted(failed) if failed else ():
            r = plan.decodes[row]
            if r.state is RequestState.RUNNING:
                events.append(life.finish(r, FinishReason.ERROR, failed[row], now))
        life.publish_filled(plan.step)
        life.policy.tick(plan.decodes, plan.changed)
        stopping = life.group.stopping(output.tokens)
        if output.stopped:
            stopping += [plan.decodes[row] for row in sorted(output.stopped) if row < rows]
        for r in stopping:
            self._stop(r, now, events)
        for r in life.group.ending(plan.step):
            events.append(life.finish(r, FinishReason.LENGTH, life.length_detail(r), now))
        return tuple([r.number for r in without]) if without else ()

    def _stop(self, r: Request, now: int, events: list[Event]) -> None:
        if r.state is RequestState.RUNNING and r.output_tokens >= r.params.min_tokens:
            events.append(self._life.finish(r, FinishReason.STOP, None, now))

    # ---- chunks

    def _chunks(self, plan: StepPlan, output: StepOutput, now: int, events: list[Event]) -> tuple[tuple[int, int, int], ...]:
        """Chunk by chunk; returns (number, tokens, emitted) of each."""
        row, slices = len(plan.decodes), []
        for chunk in plan.chunks:
            emitted = 0
            if chunk.request.state is RequestState.RUNNING:
                emitted = self._chunk(plan.step, chunk, row, output, now, events)
            slices.append((chunk.request.number, chunk.tokens, emitted))
            row += chunk.last
        return tuple(slices)

    def _chunk(self, step: int, chunk: Chunk, row: int, output: StepOutput, now: int, events: list[Event]) -> int:
        life, r = self._life, chunk.request
        if chunk.last and row in output.errors:
            events.append(life.finish(r, FinishReason.ERROR, output.errors[row], now))
            return 0
        life.chunk_ends(r, chunk.start + chunk.tokens, now)
        if not chunk.last:
            return 0
        token = output.tokens[row]
        first = life.token(r, token, now)
        if first is not None:
            events.append(first)
        if token in r.params.stop_token_ids or row in output.stopped:
            self._stop(r, now, events)
        if r.state is RequestState.RUNNING:
            if r.output_tokens >= r.params.max_tokens or len(r.tokens) >= life.longest:
                events.append(life.finish(r, FinishReason.LENGTH, life.length_detail(r), now))
            else:
                life.caught_up(r, step)
        return 1
