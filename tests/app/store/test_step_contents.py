"""A step in full: everybody who was picked is named once, and why the others were not is what the log says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from builders import Bench, make_request
from records import Records, make_bench

from app.store import step_contents
from scheduler.core.events import RequestFinished, RequestPreempted, RequestScheduled, StepCompleted


@pytest.fixture(scope="module")
def crowded(module_url: str) -> Iterator[tuple[Records, Bench]]:
    """Two tenants on few slots, with so little KV memory that some are preempted."""
    records = Records(url=module_url)
    bench = make_bench(2, blocks=9, max_num_seqs=4, max_num_batched_tokens=16)
    records.play(bench, [make_request(f"r{i}", tenant="ab"[i % 2], prompt=5 + i % 4, max_tokens=9) for i in range(10)])
    yield records, bench
    records.close()


def contents(records: Records, step: StepCompleted) -> dict[str, Any]:
    found = records.queries.ask(step_contents.step_json, step.boot, step.seq)
    assert found is not None
    return found


def test_its_slices_are_named_and_sum_to_its_tokens(crowded: tuple[Records, Bench]) -> None:
    records, bench = crowded
    for step in bench.of(StepCompleted):
        shown = contents(records, step)
        assert sum(chunk["tokens"] for chunk in shown["chunks"]) == shown["prefill_tokens"] == step.prefill_tokens
        assert (shown["n_decodes"], len(shown["decodes"])) == (shown["decode_tokens"], len(step.decodes))
        assert {each["number"] for each in shown["decodes"]} == set(step.decodes)
        assert all(each["id"] and each["tenant"] in "ab" for each in shown["chunks"] + shown["decodes"])


def test_each_admission_preemption_and_end_is_told_by_one_step(crowded: tuple[Records, Bench]) -> None:
    records, bench = crowded
    told: dict[str, list[int]] = {"admitted": [], "preempted": [], "finished": []}
    for step in bench.of(StepCompleted):
        shown = contents(records, step)
        for name, numbers in told.items():
            numbers += [each["number"] for each in shown[name]]
    assert told["admitted"] == [event.number for event in bench.of(RequestScheduled)]
    assert sorted(told["preempted"]) == sorted(event.number for event in bench.of(RequestPreempted)) != []
    assert told["finished"] == [event.number for event in bench.of(RequestFinished)]


def test_why_the_others_were_not_picked_is_the_set_that_stands(crowded: tuple[Records, Bench]) -> None:
    records, bench = crowded
    last, reasons = None, set()
    for step in bench.of(StepCompleted):
        last = step.blockers.named(step.binding) if step.blockers is not None else last
        stands = last is not None and last["reason"] == step.binding.name.lower()
        shown = contents(records, step)
        assert shown["blockers"] == (last if stands else None)
        head = (shown["blockers"] or {}).get("head")
        assert (shown["next"] or {}).get("number") == (head or None)
        reasons.add(shown["binding"])
    assert {"slots", "kv_blocks"} <= reasons


def test_a_step_that_is_not_there_is_none(crowded: tuple[Records, Bench]) -> None:
    assert crowded[0].queries.ask(step_contents.step_json, 2, 999_999) is None
