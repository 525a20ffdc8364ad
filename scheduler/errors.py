"""The errors of the scheduler library.

    BatchscopeError
    ├── SettingsError      a setting is unknown, out of range, or cannot change live; names the field
    ├── CapacityError      a request can never fit, or the pool was asked for more than it has
    ├── ModelError         weights, tokenizer or configuration cannot be used; names the file
    ├── EngineError        the engine process failed
    │   └── EngineGone     the other end of the pair is closed
    └── ProtocolError      a message on the pair cannot be understood

Each carries `param`, the name of the field or file at fault, or None.
"""

from __future__ import annotations


class BatchscopeError(Exception):
    """Base of all errors that others can cause; `param` names the field at fault."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class SettingsError(BatchscopeError):
    """A setting is unknown, has the wrong type or range, or needs a restart."""


class CapacityError(BatchscopeError):
    """More was asked for than the machine can ever give."""


class ModelError(BatchscopeError):
    """Weights, tokenizer or configuration cannot be used."""


class EngineError(BatchscopeError):
    """The engine process failed."""


class EngineGone(EngineError):
    """The other end of the pair is closed."""


class ProtocolError(BatchscopeError):
    """A message on the pair cannot be understood."""


def in_words(error: Exception) -> str:
    """What went wrong, without numbers and names that only the system's manual explains: `no such file or directory`."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not text in UTF-8"
    words = error.strerror if isinstance(error, OSError) else None
    return f"{words[0].lower()}{words[1:]}" if words else str(error) or type(error).__name__
