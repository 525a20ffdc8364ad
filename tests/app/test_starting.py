"""A server that `batchscope load` starts: said in words, and never by chance another one than made the records so far."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from records import Records

from app.cli import load, main
from app.cli.server import Server
from app.settings import ServerSettings
from app.store import lives
from app.store.models import boots

H100 = "h100-llama-3.1-8b-tp1-bf16"


class Started(Exception):
    """A server would be started now: with these arguments, in these words."""


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    made = Records(tmp_path / "batchscope.db")
    yield made
    made.close()


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def started(settings: ServerSettings, arguments: list[str], say: Any, computes: str) -> Iterator[Server]:
        raise Started(arguments, computes)
        yield Server("http://127.0.0.1:1")

    monkeypatch.setattr(load, "started", started)


def live(records: Records, boot: int, runner: str, hardware: str | None = None, model: str = "simulated") -> None:
    """A life that began at instant `boot`; the process that serves has one of its own right after."""
    both = [{"boot": boot, "runner": runner, "hardware": hardware, "model": model}]
    both.append({"boot": boot + 1, "runner": "web", "hardware": None, "model": None})
    rows = [{"wall": one["boot"], "mono": 0, "created": one["boot"]} | one for one in both]
    records.job(lambda connection: connection.execute(boots.insert(), rows))


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(words) == 2
    return capsys.readouterr().err


def test_records_of_a_modelled_gpu_are_not_gone_on_with_on_this_machine_unasked(
    records: Records, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live(records, 10, "torch", model="SmolLM2-135M-Instruct")
    live(records, 20, "simulated", H100)
    words = ["load", "tutorial", "--data-dir", str(tmp_path)]
    said = refused(words, capsys)
    assert f"last made by the simulated runner, {H100}" in said and f"`--runner simulated --hardware {H100}`" in said
    assert "would be the torch runner, SmolLM2-135M-Instruct" in said and "`--runner torch`" in said
    with pytest.raises(Started) as caught:
        main([*words, "--runner", "simulated", "--hardware", H100])
    assert caught.value.args[0][2:] == ["--runner", "simulated", "--hardware", H100]
    assert caught.value.args[1] == f"the simulated runner, {H100}"
    with pytest.raises(Started):
        main([*words, "--runner", "torch"])


def test_who_said_it_in_the_environment_has_said_it(records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live(records, 10, "torch", model="SmolLM2-135M-Instruct")
    words = ["load", "tutorial", "--data-dir", str(tmp_path)]
    with pytest.raises(Started, match="the torch runner, SmolLM2-135M-Instruct"):
        main(words)
    monkeypatch.setenv("BATCHSCOPE_RUNNER", "null")
    with pytest.raises(Started, match="the null runner"):
        main(words)


def test_a_directory_without_records_is_begun_as_the_settings_say(tmp_path: Path) -> None:
    with pytest.raises(Started, match="the torch runner"):
        main(["load", "tutorial", "--data-dir", str(tmp_path / "new")])


def test_flags_of_a_server_that_is_started_are_refused_where_none_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--url names" in refused(["load", "tutorial", "--runner", "null", "--url", "http://127.0.0.1:1"], capsys)


def test_a_run_is_of_the_last_life_that_had_begun_when_it_ended(records: Records) -> None:
    assert records.queries.ask(lives.newest) is None
    live(records, 10, "torch", model="small")
    live(records, 20, "simulated", H100)
    runs = [
        {"id": name, "versions": versions, "ended_wall": ended, "foreign_target": far}
        for name, versions, ended, far in (
            ("before", None, 5, False), ("first", None, 15, False), ("last", None, None, False), ("far", None, 15, True),
            ("own", {"simulation": {"boot": -1}}, 15, False),
        )
    ]  # fmt: skip
    live(records, -1, "simulated", "calibrated:run_1")
    found = records.queries.ask(lives.of_runs, runs)
    assert {name: life and (life["runner"], life["hardware"]) for name, life in found.items()} == {
        "before": None, "first": ("torch", None), "last": ("simulated", H100), "far": None,
        "own": ("simulated", "calibrated:run_1"),
    }  # fmt: skip
    assert records.queries.ask(lives.newest)["hardware"] == H100
