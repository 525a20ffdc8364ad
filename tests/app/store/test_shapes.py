"""The shapes of recorded steps are those of the plans that made them."""

from __future__ import annotations

from pathlib import Path

import pytest
from records import Records
from simulated_records import COST, RUN, SECOND, Recorded
from sqlalchemy import update

from app.store.errors import QueryError
from app.store.models import steps
from app.store.queries import Queries
from app.store.shapes import COLUMNS, shapes_json
from scheduler.core.plan import StepOutput, StepPlan
from scheduler.runners.simulated import SimulatedRunner
from scheduler.runners.step_cost import StepShape
from scheduler.simulate import Ask

BUSY = [Ask(n * SECOND // 200, 30 + 300 * (n % 5), 3 + n % 40, shared=((1, 160),) if n % 3 else ()) for n in range(80)]


def watched(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    planned: list[tuple[object, ...]] = []
    run = SimulatedRunner.run

    def watch(self: SimulatedRunner, plan: StepPlan) -> StepOutput:
        output, shape = run(self, plan), StepShape.of(plan)
        planned.append((shape.decodes, shape.context, sorted(shape.chunks), shape.finishing, output.elapsed / 1e6))
        return output

    monkeypatch.setattr(SimulatedRunner, "run", watch)
    recorded.close()
    return planned


def test_shapes_are_rebuilt_from_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With prefix hits, prompts in pieces, and preemptions, after which a prompt is computed again."""
    tight = {"kv_cache_tokens": 4096, "max_num_batched_tokens": 512, "max_num_seqs": 64}
    recorded = Recorded(tmp_path / "a.db", BUSY, **tight)
    planned = watched(recorded, monkeypatch)
    found = Queries(f"sqlite:///{tmp_path / 'a.db'}").ask(shapes_json, RUN)
    rows = zip(*(found["columns"][name] for name in COLUMNS), strict=True)
    shapes = [(n, ctx, sorted(tuple(chunk) for chunk in chunks), ends, ms) for n, ctx, chunks, ends, ms in rows]
    assert shapes == planned and found["left_out"] == 0
    assert found["life"]["blocks_total"] * found["life"]["block_size"] == 4096 and found["life"]["hardware"] == COST.id
    starts = [start for _, _, chunks, _, _ in shapes for _, start in chunks]
    assert any(starts), "no piece began beyond its prompt's start: the run did not test that"
    report = Queries(f"sqlite:///{tmp_path / 'a.db'}").report(RUN)
    assert report["steps"]["preemptions"] > 0, "nobody was preempted: the run did not test that"


def test_steps_that_ended_late_are_left_out(tmp_path: Path) -> None:
    Recorded(tmp_path / "a.db").close()
    records = Records(tmp_path / "a.db")
    n = len(records.queries.ask(shapes_json, RUN)["columns"]["ms"])
    records.job(lambda connection: connection.execute(update(steps).where(steps.c.step <= 3).values(host_late_ns=5)) and None)
    found = records.queries.ask(shapes_json, RUN)
    assert (len(found["columns"]["ms"]), found["left_out"]) == (n - 3, 3)
    records.close()


def test_a_run_without_steps_says_so(records: Records) -> None:
    with pytest.raises(QueryError, match="no run 'x'"):
        records.queries.ask(shapes_json, "x")
