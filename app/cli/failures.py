"""What a command can end with, other than well: a sentence for people and an exit code."""

from __future__ import annotations

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130  # the last as a shell counts it: 128 and SIGINT


class CommandError(Exception):
    """A command cannot do what it was asked; `code` is the exit code, `answered` the code of a server's error."""

    def __init__(self, message: str, code: int = FAILED, answered: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.answered = answered
