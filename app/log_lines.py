"""Log lines that cannot be forged: one record is one line, whatever a client put into the text. Knows no logger.

Invariant: no control character of a message reaches a terminal or a file; every further line of a record (a traceback)
is indented, so that none can be taken for a record.
"""

from __future__ import annotations

import logging

FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


class PlainFormatter(logging.Formatter):
    """A Formatter that escapes what a terminal would obey."""

    def __init__(self) -> None:
        super().__init__(FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's hook
        """The line itself."""
        return escaped(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # noqa: N802 - the name is logging's hook
        """The traceback, indented."""
        text = super().formatException(ei)  # type: ignore[arg-type]
        return "\n".join(f"    {escaped(line)}" for line in text.split("\n"))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - the name is logging's hook
        """A stack, indented."""
        return "\n".join(f"    {escaped(line)}" for line in stack_info.split("\n"))


def escaped(text: str) -> str:
    """`text` with every character that is not printable written as its escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def install(level: int = logging.WARNING) -> None:
    """Have every logger of this process write such lines to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(PlainFormatter())
    logging.basicConfig(level=level, handlers=[handler])
