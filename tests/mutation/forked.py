"""Forked: a pytest plugin that, instead of running all tests once, runs some of them for each fault, in a forked child.

Modules are imported and tests collected once. A first child runs all tests, which must pass, and says which lines of the core
each executes and how long it takes. For a fault, the tests that execute its statement run, one by one, until one fails.
A test that takes many times the processor time that it took unbroken is ended with its child, and so is one that takes too much
memory: found.
Invariant: this process itself runs no test, so that every child starts from the same state.
"""

from __future__ import annotations

import gc
import mmap
import os
import pickle
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import pytest
from hypothesis import Phase, settings
from mutation.lines import Line, Lines
from mutation.mutants import Fault
from mutation.swap import Where, live_functions, swap

PATIENCE_S, TIMES = 0.6, 5
MOST_S = 900  # of a child
MOST_BYTES = 4 << 30
FAILED, CANNOT = 1, 77


class Trials:
    """The plugin. `begin` is called once the tests are known; it may call `ask`."""

    def __init__(self, begin: Callable[[Trials], None], budget_s: float) -> None:
        self._begin = begin
        self._budget_s = budget_s
        self._items: list[pytest.Item] = []
        self._seconds: list[float] = []
        self._tests: dict[Line, list[int]] = {}  # who executes it
        self._early = set[Line]()  # what runs before the first test
        self._live: dict[Where, list[Any]] = {}
        self._running = mmap.mmap(-1, 4)  # which test a child runs
        self._lines = Lines()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Examples are the same in every child, kept nowhere, and not made smaller once one has failed."""
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("faults", settings.get_profile("house"), derandomize=True, database=None, phases=phases)
        settings.load_profile("faults")
        sys.settrace(self._lines.trace)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of pytest's own."""
        sys.settrace(None)
        self._early = self._lines.take()
        self._items = session.items
        self._live = live_functions()
        gc.freeze()
        self._measure()
        self._begin(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """In a child: one failure is enough."""
        if report.failed:
            os._exit(FAILED)

    def _measure(self) -> None:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            with os.fdopen(writing, "wb") as file:
                _alone()
                pickle.dump([self._measured(test) for test in range(len(self._items))], file)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as file, _killed_unless_done(child):
            told = file.read()
            status = os.waitpid(child, 0)[1]
        if status:
            sys.exit(f"mutate: without a fault {self._name()} fails: nothing can be said")
        for test, (seconds, lines) in enumerate(pickle.loads(told)):  # noqa: S301 - our own child's
            self._seconds.append(seconds)
            for line in lines:
                self._tests.setdefault(line, []).append(test)

    def _measured(self, test: int) -> tuple[float, set[Line]]:
        """Its processor time, and its lines unless it is too long."""
        began = time.process_time()
        self._run(test)
        seconds = time.process_time() - began
        if seconds >= self._budget_s:
            return seconds, set()
        sys.settrace(self._lines.trace)
        self._run(test)
        sys.settrace(None)
        return seconds, self._lines.take()

    def _run(self, test: int) -> None:
        self._running[:] = test.to_bytes(4, "little")
        item = self._items[test]
        item.ihook.pytest_runtest_protocol(item=item, nextitem=None)

    def _name(self) -> str:
        return self._items[int.from_bytes(self._running[:], "little")].nodeid

    def tests_of(self, fault: Fault) -> list[int]:
        """Those that execute its statement: its module's first, then the quickest, as many as the budget allows."""
        lines = range(fault.first, fault.line + 1)
        tests = {test for line in lines for test in self._tests.get((str(fault.path), line), ())}
        near = f"test_{fault.module.rpartition('.')[2]}"
        chosen, left = [], self._budget_s
        for test in sorted(tests, key=lambda test: (self._items[test].path.stem != near, self._seconds[test], test)):
            left -= self._seconds[test]
            if left > 0:
                chosen.append(test)
        return chosen

    def early(self, fault: Fault) -> bool:
        """Does its statement run while modules are imported or tests collected? Then what it computed is unbroken."""
        return any((str(fault.path), line) in self._early for line in range(fault.first, fault.line + 1))

    def ask(self, fault: Fault) -> str | None:
        """The test that finds it; "" if none does, None if it cannot be put into a running process."""
        child = os.fork()
        if not child:
            self._child(fault)
        with _killed_unless_done(child):
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == CANNOT:
            return None
        return self._name() if code else ""

    def _child(self, fault: Fault) -> NoReturn:
        code = FAILED
        with suppress(BaseException):
            _alone()
            signal.alarm(MOST_S)
            if not swap(fault, self._live):
                os._exit(CANNOT)
            for test in self.tests_of(fault):
                signal.setitimer(signal.ITIMER_PROF, PATIENCE_S + TIMES * self._seconds[test])
                self._run(test)
            code = 0
        os._exit(code)


@contextmanager
def _killed_unless_done(child: int) -> Iterator[None]:
    """Ctrl-C does not reach the child's own process group; this does."""
    try:
        yield
    except BaseException:
        os.killpg(child, signal.SIGKILL)
        raise


def _alone() -> None:
    """A process group of its own, which says nothing and cannot eat the machine."""
    os.setsid()
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
