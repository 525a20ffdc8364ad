"""The trace of a run: valid JSON of slices that do not overlap, with the tokens, blocks and waits of every step."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from simulated_records import RUN, SECOND, Recorded

from app.store import trace
from app.store.errors import QueryError
from app.store.queries import Queries
from scheduler.simulate import Ask

HOSTILE = '</script>"\\ \n\u2028'
ASKS = [Ask(n * SECOND // 40, 30 + 50 * (n % 9), 2 + n % 13, tenant=("a", HOSTILE)[n % 2]) for n in range(50)]


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queries]:
    path: Path = tmp_path_factory.mktemp("trace") / "records.sqlite3"
    Recorded(path, ASKS, max_num_seqs=4, max_model_len=1024, kv_cache_tokens=1024).close()
    made = Queries(f"sqlite:///{path}")
    yield made
    made.close()


@pytest.fixture(scope="module")
def events(queries: Queries) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(b"".join(trace.stream(queries.ask, {"run": RUN})))["traceEvents"]
    return found


def test_slices_of_a_thread_do_not_overlap_and_every_thread_has_a_name(events: list[dict[str, Any]]) -> None:
    threads = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in threads.values():
        assert all(earlier[1] <= later[0] + 1e-6 for earlier, later in pairwise(sorted(spans)))
    named = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert set(threads) <= set(named) and {"steps", "slot 0", "slot 3"} <= set(named.values())


def test_it_tells_the_same_as_the_records(queries: Queries, events: list[dict[str, Any]]) -> None:
    segments, steps = queries.segments({"run": RUN})["segments"], queries.steps({"run": RUN})["steps"]
    for phase in ("prefill", "decode"):
        spans = zip(segments["phase"], segments["t0"], segments["t1"], strict=True)
        told = sum(event["dur"] for event in events if event["name"] == phase)
        assert told == pytest.approx(1000 * sum(t1 - t0 for name, t0, t1 in spans if name == phase), rel=1e-4), "in whole µs"
    counted = {
        name: [event["args"] for event in events if event["ph"] == "C" and event["name"] == name]
        for name in ("tokens", "KV blocks", "waiting")
    }
    pairs = zip(steps["prefill"], steps["decode"], strict=True)
    assert counted["tokens"] == [{"prefill": prefill, "decode": decode} for prefill, decode in pairs]
    assert counted["KV blocks"] == [{"used": used} for used in steps["kv_used"]]
    assert counted["waiting"] == [{"requests": waiting} for waiting in steps["waiting"]]


def test_who_waits_is_an_async_slice_that_begins_and_ends(events: list[dict[str, Any]]) -> None:
    begun = [(event["id"], event["name"]) for event in events if event["ph"] == "b"]
    ended = [(event["id"], event["name"]) for event in events if event["ph"] == "e"]
    assert begun and sorted(begun) == sorted(ended)


def test_pages_leave_nothing_out_and_repeat_nothing(
    queries: Queries, events: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "_REQUESTS", 7)
    monkeypatch.setattr(trace, "_STEPS", 11)
    paged = json.loads(b"".join(trace.stream(queries.ask, {"run": RUN})))["traceEvents"]
    key = lambda event: json.dumps(event, sort_keys=True)  # noqa: E731
    assert sorted(map(key, paged)) == sorted(map(key, events))


def test_names_from_outside_stay_text(events: list[dict[str, Any]]) -> None:
    tenants = {event["args"]["tenant"] for event in events if event.get("cat") == "phase"}
    assert tenants == {"a", HOSTILE}


def test_what_is_open_ends_with_the_last_step(tmp_path: Path) -> None:
    path = tmp_path / "open.sqlite3"
    recorded = Recorded(path, [Ask(0, 64, 500)])
    recorded.simulation.run(SECOND)
    recorded.recording._write()
    events = json.loads(b"".join(trace.stream(Queries(f"sqlite:///{path}").ask, {"run": RUN})))["traceEvents"]
    decode = next(event for event in events if event["name"] == "decode")
    last = [event for event in events if event.get("cat") == "step"][-1]
    assert decode["args"]["open"] and decode["ts"] + decode["dur"] == pytest.approx(last["ts"] + last["dur"])


@pytest.mark.parametrize(("params", "param"), [({}, "run"), ({"run": "nobody"}, "run"), ({"run": RUN, "x": "1"}, "x")])
def test_a_wrong_question_is_refused_before_the_first_byte(queries: Queries, params: dict[str, str], param: str) -> None:
    with pytest.raises(QueryError) as caught:
        trace.stream(queries.ask, params)
    assert caught.value.param == param


def test_perfetto_reads_it(queries: Queries, tmp_path: Path) -> None:
    shell = shutil.which("trace_processor_shell") or shutil.which("trace_processor")
    if shell is None:
        pytest.skip("NO TRACE PROCESSOR: Perfetto's own reading of the trace is not tested here")
    file, query = tmp_path / "trace.json", tmp_path / "q.sql"
    file.write_bytes(b"".join(trace.stream(queries.ask, {"run": RUN})))
    query.write_text("select count(*) as n from slice where category = 'step'")
    done = subprocess.run([shell, "-q", str(query), str(file)], capture_output=True, text=True, timeout=60, check=True)
    assert str(len(queries.steps({"run": RUN})["steps"]["seq"])) in done.stdout
