"""Ctrl-C at any moment of a command: one line and 130, also while what it needs is still being imported."""

from __future__ import annotations

import subprocess
import sys

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
