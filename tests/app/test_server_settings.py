"""Settings of the server: flags > environment > file > defaults; unknown names and unsafe binds are errors."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path

import pytest

from app.settings import PREFIX, ServerSettings, load, parser
from scheduler.errors import SettingsError


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    (tmp_path / "batchscope.toml").write_text(
        'port = 1\nmodel = "file"\ndata_dir = "file"\n[set]\nmax_num_seqs = 3\nenable_chunked_prefill = false\n'
    )
    environ = {"BATCHSCOPE_PORT": "2", "BATCHSCOPE_MODEL": "env", "HOME": "x"}
    found = load(["--port", "3"], environ, tmp_path)
    assert (found.port, found.model, found.data_dir, found.runner) == (3, "env", "file", "torch")
    assert found.scheduler == {"max_num_seqs": 3, "enable_chunked_prefill": False}


@pytest.mark.parametrize(
    ("argv", "environ"),
    [
        (["--colour", "red"], {}),
        (["--por", "1"], {}),
        (["--runner", "abacus"], {}),
        (["--port", "http"], {}),
        (["--port", "65536"], {}),
        (["--set", "max_num_seqs=0"], {}),
        (["--set", "max_seqs=4"], {}),
        (["--set", "max_num_seqs"], {}),
        (["--drain", "-1"], {}),
        ([], {"BATCHSCOPE_COLOUR": "red"}),
        ([], {"BATCHSCOPE_RECORD_TEXT": "perhaps"}),
        (["--host", "0.0.0.0"], {}),
        (["--host", "192.0.2.1"], {}),
        (["--config", "nowhere.toml"], {}),
        (["--max-requests-per-minute", "60"], {}),
        (["--max-requests-per-minute", "-1", "--api-key-file", "keys"], {}),
    ],
)  # fmt: skip
def test_what_is_unknown_or_unsafe_is_an_error_of_one_line(argv: list[str], environ: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(argv, environ, tmp_path)
    assert "\n" not in caught.value.message


def test_static_files_are_sent_as_written_by_flag_and_by_environment(tmp_path: Path) -> None:
    found = [load(argv, environ, tmp_path).plain_static for argv, environ in (([], {}), (["--plain-static"], {}))]
    assert [*found, load([], {"BATCHSCOPE_PLAIN_STATIC": "1"}, tmp_path).plain_static] == [False, True, True]


def test_an_unknown_name_in_the_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "batchscope.toml").write_text("colour = 1\n")
    with pytest.raises(SettingsError, match="colour"):
        load([], {}, tmp_path)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.2"])
def test_loopback_needs_no_key(host: str, tmp_path: Path) -> None:
    assert load(["--host", host], {}, tmp_path).loopback


def test_another_bind_is_allowed_with_keys(tmp_path: Path) -> None:
    assert not load(["--host", "0.0.0.0", "--api-key-file", "keys"], {}, tmp_path).loopback


def test_every_setting_has_a_flag_a_variable_and_help(tmp_path: Path) -> None:
    text = parser().format_help()
    for spec in fields(ServerSettings):
        assert "--" + spec.name.replace("_", "-") in text and spec.metadata["help"]
    environ = {PREFIX + "SET": "max_num_seqs=2 block_size=8"}
    assert load(["--allow-host", "a", "--allow-host", "b:1"], environ, tmp_path).set == (
        "max_num_seqs=2", "block_size=8",
    )  # fmt: skip


def test_the_policy_flag_is_a_scheduler_setting(tmp_path: Path) -> None:
    assert load(["--policy", "sjf"], {}, tmp_path).scheduler == {"policy": "sjf"}


def test_a_clients_key_variable_is_no_setting(tmp_path: Path) -> None:
    assert load([], {"BATCHSCOPE_API_KEY": "x"}, tmp_path) == load([], {}, tmp_path)


def test_the_model_cache_lies_in_the_data_directory(tmp_path: Path) -> None:
    model = load(["--data-dir", "d", "--runner", "simulated", "--hardware", "h"], {}, tmp_path).model_settings
    assert (model.runner, model.hardware, model.cache_dir) == ("simulated", "h", os.path.join("d", "models"))
