"""Ctrl-C at any moment of a command: one line and 130, also while what it needs is still being imported."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from live_server import ROOT

from app.cli import command

CTRL_C = """
import builtins, sys
real = builtins.__import__
def interrupted(name, *rest):
    if name == "sqlalchemy.exc":
        raise KeyboardInterrupt
    return real(name, *rest)
builtins.__import__ = interrupted
import app.cli.__main__
"""
SERVE = """
from gevent import monkey
monkey.patch_all()
import builtins, os, runpy, signal, sys
real, moment = builtins.__import__, sys.argv.pop(1)
def ctrl_c(*_):
    os.kill(os.getpid(), signal.SIGINT)
def interrupted(name, *rest, **more):
    if name == moment:
        ctrl_c()
    return real(name, *rest, **more)
builtins.__import__ = interrupted
import app.settings
app.settings.load = ctrl_c
runpy.run_module("app.serve", run_name="__main__", alter_sys=True)
"""


def test_an_interrupt_while_it_is_imported_is_one_line() -> None:
    done = subprocess.run([sys.executable, "-c", CTRL_C], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "batchscope: interrupted\n")


def test_an_interrupt_of_a_commands_work_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "parser", interrupted)
    assert command.main(["runs"]) == 130
    assert capsys.readouterr().err == "batchscope: interrupted\n"


@pytest.mark.parametrize(
    ("moment", "code", "said"), [("app.known_names", -signal.SIGINT, ""), ("later", 130, "batchscope: interrupted\n")]
)
def test_an_interrupt_of_a_server_that_starts_is_no_traceback(moment: str, code: int, said: str, tmp_path: Path) -> None:
    """While its modules are imported, and while it reads its settings; nothing is left behind."""
    words = [sys.executable, "-c", SERVE, moment, "--data-dir", str(tmp_path / "data")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, said) and not (tmp_path / "data").exists()
