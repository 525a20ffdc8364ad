"""Loan: scheduler settings changed for a while and given back. Knows no run.

Invariant: after `give_back`, each setting that the loan changed has the value it had before, unless there is no engine.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Protocol

from scheduler.engine.messages import Reply
from scheduler.errors import EngineGone, SettingsError

log = logging.getLogger("batchscope")


class Engine(Protocol):
    """The settings side of the engine's life."""

    def patch(self, changes: Mapping[str, Any], expected: int | None = None) -> Reply: ...
    def current(self) -> dict[str, Any]: ...


class Loan:
    """Takes the settings at once; raises SettingsError (naming `scheduler.<name>`) or EngineGone, and has changed nothing."""

    def __init__(self, engine: Engine, settings: Mapping[str, Any]) -> None:
        self._engine = engine
        self._before: dict[str, Any] = {}
        if not settings:
            return
        before = engine.current()
        for name in settings:
            if name not in before:
                raise SettingsError(f"unknown setting {name[:64]!r}", f"scheduler.{name[:64]}")
        reply = engine.patch(settings)
        if reply.error is not None:
            raise SettingsError(reply.message, f"scheduler.{reply.param}")
        names = {*settings, *({"policy_params"} if "policy" in settings else ())}
        self._before = {name: before[name] for name in sorted(names)}

    def give_back(self) -> None:
        """Put the old values back; may be called twice."""
        before, self._before = self._before, {}
        if not before:
            return
        try:
            reply = self._engine.patch(before)
        except EngineGone as error:
            log.error("the settings of a run could not be put back: %s", error.message)
            return
        if reply.error is not None:
            log.error("the settings of a run could not be put back: %s", reply.message)
