"""Lines: which lines of the core's functions run. Knows no tests; is asked when one ends."""

from __future__ import annotations

from inspect import CO_OPTIMIZED
from types import CodeType, FrameType
from typing import Any

from mutation.mutants import CORE

Line = tuple[str, int]  # file, number


class Function:
    """One function's lines, and those of them that ran since the last look. Its first line stands for a call."""

    __slots__ = ("code", "lines", "seen")

    def __init__(self, code: CodeType) -> None:
        self.code = code  # kept, so that its id stays its own
        self.lines = {line for _, _, line in code.co_lines() if line is not None} | {code.co_firstlineno}
        self.seen: set[int] = set()

    def trace(self, frame: FrameType, what: str, arg: object) -> Any:
        """Something happens in it."""
        self.seen.add(frame.f_lineno)
        return self.trace


class Lines:
    """A tracer for sys.settrace. It looks at functions of the core only, and at none again all of whose lines were seen."""

    def __init__(self) -> None:
        self._functions: dict[int, Function | None] = {}  # by id: a code object's hash is dear
        self._others: list[CodeType] = []

    def trace(self, frame: FrameType, what: str, arg: object) -> Any:
        """A call begins."""
        code = frame.f_code
        try:
            function = self._functions[id(code)]
        except KeyError:
            function = self._new(code)
        if function is None or len(function.seen) == len(function.lines):
            return None
        function.seen.add(code.co_firstlineno)
        return function.trace

    def _new(self, code: CodeType) -> Function | None:
        ours = code.co_filename.startswith(str(CORE)) and code.co_flags & CO_OPTIMIZED  # no module, no class body
        function = Function(code) if ours else None
        if function is None:
            self._others.append(code)
        self._functions[id(code)] = function
        return function

    def take(self) -> set[Line]:
        """The lines that ran since the last look."""
        found = set[Line]()
        for function in self._functions.values():
            if function is not None:
                found.update((function.code.co_filename, line) for line in function.seen)
                function.seen = set()
        return found
