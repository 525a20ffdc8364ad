"""Gaps between a request's tokens: from step end to step end, the longest told by who prefilled beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from builders import Bench, make_request
from records import Records, make_bench

from scheduler.core.events import RequestFinished, RequestPreempted, StepCompleted


@pytest.fixture(scope="module")
def mixed(module_url: str) -> Iterator[tuple[Records, Bench]]:
    """A long answer of tenant a, beside which prompts of tenant b are computed; memory runs out for some."""
    records = Records(url=module_url)
    bench = make_bench(2, blocks=12, max_num_seqs=4, max_num_batched_tokens=16)
    others = [make_request(f"b{i}", tenant="b", prompt=11 + i, max_tokens=9) for i in range(6)]
    records.play(bench, [make_request("long", tenant="a", prompt=4, max_tokens=20), *others], run="one")
    yield records, bench
    records.close()


def detail(records: Records, id: str) -> dict[str, Any]:
    found = records.queries.request(id)
    assert found is not None
    return found


def ends(bench: Bench, number: int) -> list[int]:
    """When `number` had its tokens."""
    found = []
    for step in bench.of(StepCompleted):
        made = number in step.decodes or any(each == number and emitted for each, _, emitted in step.chunks)
        found += [step.ended_at] * made
    return found


def test_gaps_are_those_of_the_log(mixed: tuple[Records, Bench]) -> None:
    records, bench = mixed
    for end in bench.of(RequestFinished):
        at = ends(bench, end.number)
        gaps = detail(records, end.id)["gaps"]
        assert gaps["n"] == len(at) - 1 == end.output_tokens - 1
        assert gaps["ms"] == pytest.approx([(later - before) / 1e6 for before, later in zip(at, at[1:], strict=False)])
        assert gaps["p50_ms"] <= gaps["p95_ms"] <= gaps["worst"][0]["ms"] == max(gaps["ms"])


def test_the_longest_names_who_prefilled_in_its_step(mixed: tuple[Records, Bench]) -> None:
    records, bench = mixed
    steps = {step.step: step for step in bench.of(StepCompleted)}
    stretched = [each for each in detail(records, "long")["gaps"]["worst"] if each["prefill_tokens"]]
    assert stretched
    for each in stretched:
        step = steps[each["step"]]
        assert each["prefill_tokens"] == sum(tokens for _, tokens, _ in step.chunks)
        assert [one["tenant"] for one in each["prefills"]] == ["b"] * len(step.chunks)
        assert {one["id"] for one in each["prefills"]} <= {f"b{i}" for i in range(6)}


def test_a_gap_over_a_preemption_spans_steps(mixed: tuple[Records, Bench]) -> None:
    records, bench = mixed
    first = {end.number: ends(bench, end.number)[0] for end in bench.of(RequestFinished)}
    decoding = {event.number for event in bench.of(RequestPreempted) if event.at > first[event.number]}
    assert decoding
    for end in bench.of(RequestFinished):
        spans = [each["steps"] for each in detail(records, end.id)["gaps"]["worst"]]
        assert (max(spans) > 1) == (end.number in decoding), end.id


def test_a_request_leads_to_its_neighbours_by_arrival(mixed: tuple[Records, Bench]) -> None:
    records, _ = mixed
    ids = [row["id"] for row in records.queries.requests({"run": "one", "sort": "received"})["items"]]
    shown = [detail(records, id) for id in ids]
    assert [each["previous"] for each in shown] == [None, *ids[:-1]]
    assert [each["next"] for each in shown] == [*ids[1:], None]
