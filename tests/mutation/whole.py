"""Whole: one fault asked the long way, in a process that imports everything anew and finds the broken source for the file.

For faults that cannot be put into a running process, and for those whose code runs while modules are imported.
`python -m mutation.whole MODULE TEST …` reads the broken source from standard input; its exit status is pytest's.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.util
import os
import signal
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

from mutation.mutants import ROOT, Fault, broken

LIMIT_S = 240
QUIET = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"


class Faulty(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the broken source in place of the file."""

    def __init__(self, module: str, source: str) -> None:
        self._module = module
        self._source = source

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Ours, for one name."""
        if name != self._module:
            return None
        return importlib.util.spec_from_loader(name, self, origin=str(ROOT / (name.replace(".", "/") + ".py")))

    def exec_module(self, module: object) -> None:
        """Run the broken source as the module."""
        code = compile(self._source, f"<fault in {self._module}>", "exec")
        exec(code, vars(module))  # noqa: S102 - our own source, one node changed


def ask(fault: Fault, tests: list[Path]) -> bool:
    """Does one of the tests fail, or run on for too long?"""
    source = ast.unparse(broken(fault)[0])
    command = [sys.executable, "-m", "mutation.whole", fault.module, *map(str, tests)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    try:
        process.communicate(source, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return True
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return process.returncode != 0


def main() -> int:
    """Run the tests with the fault in place."""
    import pytest

    sys.meta_path.insert(0, Faulty(sys.argv[1], sys.stdin.read()))
    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", QUIET, *sys.argv[2:]]))


if __name__ == "__main__":
    sys.exit(main())
