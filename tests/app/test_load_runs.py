"""Load runs with a stand-in for the generator: one at a time, lawful moves, settings given back, the file as the truth."""

from __future__ import annotations

import sys
import textwrap
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from live_server import wait_until

from app.supervisor import generator, run_life
from app.supervisor.load_runs import LoadRuns, NoRate, RunActive
from app.supervisor.run_life import Asked
from app.supervisor.run_ties import Surroundings
from scheduler.engine.messages import Reply
from scheduler.errors import SettingsError

GOOD = """
    import json, pathlib, sys
    out = pathlib.Path(next(a for a in sys.argv if a.startswith("--out=")).removeprefix("--out="))
    print(json.dumps({"type": "progress", "t": 0.5, "sent": 2, "ok": 1, "in_flight": 1}), flush=True)
    print("no json", flush=True)
    print(json.dumps({"type": "progress", "t": 99.0, "sent": 2, "ok": 2, "in_flight": 0}), flush=True)
    (out / "requests.jsonl").write_text("{}")
    """
BAD = "import sys; print('it broke', file=sys.stderr); sys.exit(3)"
WAITS = """
    import signal, sys, time
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print('{"type": "progress", "t": 0.1, "sent": 1}', flush=True)
    while True: time.sleep(0.05)
    """


TALKS = """
    import json, signal, sys, time
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    for sent in (1, 7):
        print(json.dumps({"type": "progress", "t": 0.1 * sent, "sent": sent, "rate_changes": []}), flush=True)
    while True: time.sleep(0.05)
    """


OBEYS = """
    import json, signal, sys
    signal.signal(signal.SIGTERM, lambda *_: None)
    changes = []
    def say(**more):
        print(json.dumps({"type": "progress", "t": 1.5, "sent": 1, "rate_changes": changes, **more}), flush=True)
    say(rate_factor=1.0)
    for line in sys.stdin:
        order = json.loads(line)
        if order == {"stop": "now"}:
            break
        changes.append({"at_s": 1.5, "factor": order["rate_factor"]})
        say(rate_factor=order["rate_factor"])
    """


class FakeLedger:
    """The records. `during`: what happens at the moment of a call, told its name (or the status that it sets) and the run."""

    def __init__(self) -> None:
        self.during: Callable[[str, str], object] = lambda _what, _run: None
        self.moves: list[dict[str, Any]] = []
        self.imported: list[Path] = []
        self.broken = False

    def create(self, run: Mapping[str, Any]) -> dict[str, Any]:
        if self.broken:
            raise RuntimeError("no database")
        self.during("create", str(run["id"]))
        return dict(run)

    def change(self, run_id: str, columns: Mapping[str, Any]) -> dict[str, Any]:
        self.moves.append(dict(columns))
        self.during(columns.get("status", "change"), run_id)
        return {}

    def import_file(self, run_id: str, path: Path) -> int:
        self.during("import", run_id)
        self.imported.append(path)
        return 0

    def settle(self, run_id: str) -> int:
        self.moves.append({"settled": run_id})
        self.during("settle", run_id)
        return 0

    def report(self, run_id: str) -> dict[str, Any]:
        self.during("report", run_id)
        counts = {"sent": 5, "ok": 4, "failed": 1, "refused": 0, "cancelled": 0, "incomplete": 0}
        return {"verdict": "valid", "reconciliation": {**counts, "server_rows": 5}}


class FakeEngine:
    def __init__(self) -> None:
        self.settings: dict[str, Any] = {"policy": "fcfs", "policy_params": {}, "max_num_seqs": 16, "batching": "continuous"}

    def current(self) -> dict[str, Any]:
        return dict(self.settings)

    def patch(self, changes: Mapping[str, Any], expected: int | None = None) -> Reply:
        if changes.get("max_num_seqs") == 0:
            return Reply(1, 1, {}, False, "invalid", "too low", "max_num_seqs")
        self.settings |= changes
        return Reply(1, 2, dict(self.settings), False)


class Stage:
    def __init__(self, directory: Path) -> None:
        self.ledger, self.engine = FakeLedger(), FakeEngine()
        self.told: list[dict[str, Any]] = []
        around = Surroundings(directory, lambda: "http://127.0.0.1:1", "", dict, lambda run: self.told.append(dict(run or {})))
        self.runs = LoadRuns(around, self.ledger, self.engine)

    def finish(self) -> None:
        for thread in threading.enumerate():
            if thread.name in ("load-run", "load-stop"):
                thread.join(15)
        assert self.runs.active is None

    @property
    def statuses(self) -> list[str]:
        return [move["status"] for move in self.ledger.moves if "status" in move]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    child(monkeypatch, GOOD)
    return Stage(tmp_path)


def child(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Have runs start this program instead of the load generator, with its arguments."""
    plain = generator.command
    monkeypatch.setattr(generator, "command", lambda order: [sys.executable, "-c", textwrap.dedent(program), *plain(order)[3:]])


def test_a_run_goes_from_pending_to_finished_with_its_report(stage: Stage) -> None:
    row = stage.runs.start(Asked("poisson", set={"rate": 5.0}, seed=3))
    assert row["parameters"]["rate"] == 5.0 and row["seed"] == 3 and row["target"] == "http://127.0.0.1:1"
    stage.finish()
    assert stage.statuses == ["running", "draining", "finished"]
    settled = stage.ledger.moves.index({"settled": row["id"]})
    assert stage.ledger.moves[settled + 1]["status"] == "finished", "whoever reads that it has ended asks for its report"
    assert [path.name for path in stage.ledger.imported] == ["requests.jsonl"]
    last = stage.told[-1]
    assert (last["status"], last["verdict"], last["sent"], last["ok"]) == ("finished", "valid", 2, 2)


def test_only_one_run_is_active(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, WAITS)
    first = stage.runs.start(Asked("steady"))
    with pytest.raises(RunActive):
        stage.runs.start(Asked("steady"))
    assert not stage.runs.stop("run_other") and stage.runs.stop(first["id"])
    stage.finish()
    assert stage.statuses[-1] == "stopped"


def test_once_a_row_says_that_its_run_has_ended_another_may_begin(stage: Stage) -> None:
    first = stage.runs.start(Asked("poisson", external=True))["id"]
    begun: list[str] = []

    def another(what: str, run: str) -> None:
        if what == "report" and run == first:  # its row says so, and its report is being made
            begun.append(stage.runs.start(Asked("poisson", external=True))["id"])

    stage.ledger.during = another
    assert stage.runs.stop(first)
    assert [stage.runs.active] == begun
    assert [told["id"] for told in stage.told[-2:]] == [first, *begun], (
        "the page shows the run that is active, not one before it"
    )


def test_who_sees_the_row_before_its_run_is_let_go_waits_and_may_begin(stage: Stage) -> None:
    first = stage.runs.start(Asked("poisson", external=True))["id"]
    went: list[object] = []

    def start() -> None:
        try:
            went.append(stage.runs.start(Asked("poisson", external=True))["id"])
        except RunActive as error:
            went.append(error)

    other = threading.Thread(target=start)

    def seen(what: str, run: str) -> None:
        if what == "finished" and run == first:
            other.start()
            other.join(0.3)  # it is to wait for the lock, which nobody can watch

    stage.ledger.during = seen
    assert stage.runs.stop(first)
    other.join(15)
    assert went == [stage.runs.active] and went != [None]


def test_a_run_is_closed_once_however_often_it_is_stopped_meanwhile(stage: Stage) -> None:
    stage.ledger.during = lambda what, run: what == "settle" and stage.runs.stop(run)
    run = stage.runs.start(Asked("poisson", external=True))["id"]
    assert stage.runs.stop(run)
    assert stage.statuses == ["running", "finished"]


def test_a_stop_that_comes_before_the_generator_ends_it_all_the_same(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, WAITS)
    stage.ledger.during = lambda what, run: what == "create" and stage.runs.stop(run)
    stage.runs.start(Asked("steady"))
    stage.finish()
    assert stage.statuses == ["draining", "stopped"]


def test_a_row_is_closed_even_where_its_file_cannot_be_read(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    def broken(what: str, _run: str) -> None:
        if what == "import":
            raise OSError("no such device")

    stage.ledger.during = broken
    stage.runs.start(Asked("poisson"))
    stage.finish()
    assert stage.statuses[-1] == "finished" and stage.told[-1]["verdict"] == "valid" and "no such device" in caplog.text


def test_a_server_that_stops_waits_for_the_report_of_the_run_that_it_ended(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    child(monkeypatch, WAITS)
    reported: list[str] = []
    stage.ledger.during = lambda what, run: what == "report" and reported.append(run)
    run = stage.runs.start(Asked("steady"))["id"]
    stage.runs.shutdown()
    assert reported == [run] and stage.statuses[-1] == "stopped"
    stage.runs.shutdown()


def test_settings_are_changed_for_the_run_and_given_back_even_when_it_fails(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    child(monkeypatch, BAD)
    before = stage.engine.current()
    row = stage.runs.start(Asked("tutorial", scheduler={"max_num_seqs": 3, "policy_params": {"x": 1}}))
    assert row["settings"] == before | {
        "policy": "priority",
        "batching": "static",
        "max_num_seqs": 3,
        "policy_params": {"x": 1},
    }
    stage.finish()
    assert stage.engine.current() == before and stage.statuses[-1] == "failed"
    assert "it broke" in stage.ledger.moves[-1]["error"] and "code 3" in stage.ledger.moves[-1]["error"]


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        (Asked("nowhere"), "scenario"),
        (Asked("../secrets"), "scenario"),
        (Asked("poisson", set={"colour": 1}), "set.colour"),
        (Asked("poisson", set={"rate": "fast"}), "set.rate"),
        (Asked("poisson", set={"rate": -1.0}), "set.rate"),
        (Asked("shape", set={"shape": "0:1 20-8"}), "set.shape"),
        (Asked("shape", set={"shape": 7}), "set.shape"),
        (Asked("poisson", scheduler={"colour": 1}), "scheduler.colour"),
        (Asked("poisson", scheduler={"max_num_seqs": 0}), "scheduler.max_num_seqs"),
    ],
)
def test_a_run_that_cannot_be_is_refused_and_leaves_nothing(stage: Stage, asked: Asked, param: str) -> None:
    before = stage.engine.current()
    with pytest.raises(SettingsError) as caught:
        stage.runs.start(asked)
    assert caught.value.param == param and stage.runs.active is None and stage.engine.current() == before


def test_a_run_whose_row_cannot_be_written_gives_its_settings_back(stage: Stage) -> None:
    stage.ledger.broken = True
    before = stage.engine.current()
    with pytest.raises(RuntimeError):
        stage.runs.start(Asked("tutorial"))
    assert stage.runs.active is None and stage.engine.current() == before


def test_a_generator_that_does_not_start_leaves_a_failed_run(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "command", lambda order: ["/nowhere/python"])
    with pytest.raises(OSError):
        stage.runs.start(Asked("steady"))
    assert stage.statuses == ["failed"] and stage.runs.active is None


def test_an_external_run_has_no_child_and_ends_when_its_generator_says_so(stage: Stage) -> None:
    row = stage.runs.start(Asked("poisson", external=True, name="mine", set={"anything": 1}))
    assert row["external"] and stage.statuses == ["running"]
    assert stage.runs.stop(row["id"])
    assert stage.statuses == ["running", "finished"] and stage.runs.active is None
    counted = stage.told[-1]
    assert (counted["sent"], counted["ok"], counted["failed"], counted["verdict"]) == (5, 4, 1, "valid")


def test_progress_is_the_generators_last_word_not_that_of_the_last_move(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, TALKS)
    run = stage.runs.start(Asked("steady"))["id"]
    wait_until(lambda: (stage.runs.progress(run) or {}).get("sent") == 7)
    assert stage.ledger.moves[-1]["progress"]["sent"] == 1, "the row has that of the move to running"
    assert stage.runs.progress("another") is None
    assert stage.runs.stop(run)
    stage.finish()
    assert stage.runs.progress(run) is None, "it stands in the row now"


def test_a_change_of_rate_is_what_the_generator_says_not_what_was_asked(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, OBEYS)
    run = stage.runs.start(Asked("steady"))["id"]
    wait_until(lambda: stage.told[-1]["rate_factor"] == 1.0)
    stage.runs.change_rate(run, 2.0)
    wait_until(lambda: stage.told[-1]["rate_factor"] == 2.0)
    assert stage.told[-1]["rate_changes"] == [{"at_s": 1.5, "factor": 2.0}]
    assert stage.runs.stop(run, now=True)  # this generator takes no signal: the order ends it
    stage.finish()
    assert [move["progress"]["rate_changes"] for move in stage.ledger.moves if set(move) == {"progress"}] == [
        [{"at_s": 1.5, "factor": 2.0}]
    ]
    assert stage.statuses[-1] == "stopped"


def test_a_change_of_rate_is_shown_before_its_row_is_written(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, OBEYS)
    shown: list[float] = []
    stage.ledger.during = lambda what, _run: what == "change" and shown.append(stage.told[-1]["rate_factor"])
    run = stage.runs.start(Asked("steady"))["id"]
    wait_until(lambda: stage.told[-1]["rate_factor"] == 1.0)
    stage.runs.change_rate(run, 2.0)
    wait_until(lambda: shown)
    assert shown == [2.0]
    assert stage.runs.stop(run, now=True)
    stage.finish()


def test_a_stop_that_takes_too_long_can_be_hurried(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, OBEYS)
    run = stage.runs.start(Asked("steady"))["id"]
    wait_until(lambda: stage.told[-1]["sent"] == 1)
    assert stage.runs.stop(run) and stage.runs.stop(run) and stage.runs.active == run
    assert stage.runs.stop(run, now=True)
    stage.finish()
    assert stage.statuses[-1] == "stopped"


def test_nobody_changes_the_rate_of_a_run_that_is_not_ours_or_sends_no_more(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NoRate):
        stage.runs.change_rate("run_nowhere", 2.0)
    external = stage.runs.start(Asked("poisson", external=True))["id"]
    with pytest.raises(NoRate, match="of its own"):
        stage.runs.change_rate(external, 2.0)
    stage.runs.stop(external)
    child(monkeypatch, OBEYS)
    run = stage.runs.start(Asked("steady"))["id"]
    stage.runs.stop(run)
    with pytest.raises(NoRate, match="nothing any more"):
        stage.runs.change_rate(run, 2.0)
    stage.runs.stop(run, now=True)
    stage.finish()


def test_a_log_is_the_end_of_what_the_generator_wrote(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, "import sys; [print(f'line {n}', file=sys.stderr) for n in range(300)]")
    run = stage.runs.start(Asked("steady"))["id"]
    stage.finish()
    assert stage.runs.log(run) == [f"line {n}" for n in range(100, 300)] and stage.runs.log("run_nowhere") == []


def test_a_stopping_server_ends_its_run(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, WAITS)
    stage.runs.start(Asked("steady"))
    stage.runs.shutdown()
    stage.finish()
    assert stage.statuses[-1] == "stopped"


def test_arguments_are_words_of_their_own_and_the_environment_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("BATCHSCOPE_DATA_DIR", "x")
    monkeypatch.setenv("SECRET", "x")
    order = generator.Order(
        "run_1", "poisson", "http://127.0.0.1:1", 0, {"x": "; rm -rf / --host=evil\n", "y": True}, 1, tmp_path
    )
    assert generator.command(order)[-2:] == ["--set=x=; rm -rf / --host=evil\n", "--set=y=true"]
    environment = generator.environment("key")
    assert "SECRET" not in environment and "BATCHSCOPE_DATA_DIR" not in environment
    assert environment["BATCHSCOPE_API_KEY"] == "key" and "BATCHSCOPE_API_KEY" not in generator.environment("")


def test_the_figures_are_those_of_the_generators_own_words() -> None:
    assert set(run_life.FIGURES) >= {"sent", "ok", "failed", "refused", "in_flight"}
