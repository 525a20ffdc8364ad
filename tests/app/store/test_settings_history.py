"""The history of settings: each change from what to what, starts included; during which run, and where in it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from records import WALL, Records, make_bench

from app.store import runs
from app.store.errors import QueryError
from app.store.instants import iso
from app.store.runs import NewRun
from app.store.settings_history import changes_json
from scheduler.core.events import SettingsChanged

SECOND = 10**9
SETTINGS: dict[str, Any] = {"policy": "vtc", "policy_params": {}, "max_num_seqs": 2, "watermark": 0.01}


def asked(records: Records, **params: str) -> dict[str, Any]:
    return records.queries.ask(changes_json, params)


def changed(records: Records) -> None:
    """Two changes within a run's third second and one after it, in two lives; the second begins with four slots more."""
    bench = make_bench(2)
    records.begin_life(bench, SETTINGS)
    start = WALL + bench.clock.now
    records.job(partial(runs.create, run=NewRun("one", start, started_wall=start + SECOND, scenario="steady", seed=1)))
    bench.clock.now += 3 * SECOND
    for version, changes in (
        (2, (("max_num_seqs", 8), ("policy_params", {"weight.a": 3}))),
        (3, (("policy", "sjf"), ("max_num_seqs", 8))),
    ):
        records.write([bench.scheduler.record(SettingsChanged, bench.clock.now, version=version, changes=changes)])
        bench.clock.now += 1000
    records.job(partial(runs.change, run_id="one", status="finished", ended_wall=start + 5 * SECOND))
    bench.clock.now += 10 * SECOND
    records.write([bench.scheduler.record(SettingsChanged, bench.clock.now, version=4, changes=(("watermark", 0.02),))])


def test_a_change_says_from_what_to_what_and_another_policy_begins_with_its_own_defaults(records: Records) -> None:
    changed(records)
    found = asked(records)
    said = [(each["version"], [(one["name"], one["from"], one["to"]) for one in each["changes"]]) for each in found["items"]]
    assert (
        said
        == [
            (4, [("watermark", 0.01, 0.02)]),
            (3, [("policy", "vtc", "sjf"), ("policy_params", {"weight.a": 3}, {})]),
            (2, [("max_num_seqs", 2, 8), ("policy_params", {}, {"weight.a": 3})]),
        ]
        and not found["truncated"]
    )


def test_a_change_is_placed_in_the_run_that_went_on_and_a_run_is_asked_for_its_own(records: Records) -> None:
    changed(records)
    items = asked(records)["items"]
    place = {"id": "one", "name": "steady", "at_s": 2.0}
    assert [each["run"] for each in items] == [None, place, place]
    assert [each["version"] for each in asked(records, run="one")["items"]] == [3, 2]
    wall = records.sql("SELECT wall FROM settings_changes WHERE version = 2")[0][0]
    assert items[-1]["at"] == iso(wall) and items[-1]["seq"] > 0


def test_what_a_run_asked_for_is_its_own_though_it_was_taken_right_before_the_run_was_made(records: Records) -> None:
    bench = make_bench(2)
    records.begin_life(bench, SETTINGS)
    for version, slots in ((2, 8), (3, 9)):
        bench.clock.now += SECOND
        records.write(
            [bench.scheduler.record(SettingsChanged, bench.clock.now, version=version, changes=(("max_num_seqs", slots),))]
        )
    made = WALL + bench.clock.now + SECOND // 10
    run = NewRun("one", made, started_wall=made, name="lent", scheduler={"max_num_seqs": 9})
    records.job(partial(runs.create, run=run))
    lent, before = asked(records)["items"]
    assert lent["run"] == {"id": "one", "name": "lent", "at_s": -0.1} and before["run"] is None


def test_a_start_with_other_settings_than_the_engine_before_it_ended_with_is_told(records: Records) -> None:
    changed(records)
    now = SETTINGS | {"policy": "sjf", "max_num_seqs": 4, "watermark": 0.02}
    records.begin_life(make_bench(3), now)
    newest = asked(records)["items"][0]
    assert (newest["boot"], newest["seq"], newest["version"]) == (3, 0, None)
    assert newest["changes"] == [{"name": "max_num_seqs", "from": 8, "to": 4}]
    records.begin_life(make_bench(4), now)
    assert asked(records)["items"][0] == newest, "a start with the same settings is no change"


def test_what_is_left_out_is_said_and_a_wrong_question_names_its_parameter(records: Records) -> None:
    assert asked(records) == {"items": [], "truncated": False}
    changed(records)
    found = asked(records, limit="2")
    assert [each["version"] for each in found["items"]] == [4, 3] and found["truncated"]
    for params in ({"run": "nobody"}, {"limit": "0"}, {"since": "1"}):
        with pytest.raises(QueryError) as told:
            asked(records, **params)
        assert told.value.param == next(iter(params))
