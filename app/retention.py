"""The server's own retention: once an hour, what --retain-days and --retain-gb no longer keep is taken away, in turns.

Knows no greenlet: `sleep` and `job` are handed in. Invariant: whatever a round meets, the next one comes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from app.settings import ServerSettings
from app.store.instants import wall_ns
from app.store.pruning import pruned
from app.store.retention import Rule
from scheduler.errors import BatchscopeError

log = logging.getLogger("batchscope")

FIRST_S, EVERY_S = 60.0, 3600.0
WORK_S, REST_S = 0.5, 0.5  # so that other jobs of the writer go between


class Retention:
    """See the module. `keep` runs until `over()`."""

    def __init__(
        self,
        settings: ServerSettings,
        job: Callable[..., Any],
        *,
        sleep: Callable[[float], object],
        over: Callable[[], bool],
    ) -> None:
        self.rule = rule_of(settings)
        self._job = job
        self._sleep = sleep
        self._over = over

    def keep(self) -> None:
        """Once an hour, until it is over; not at all where nothing was set."""
        if self.rule is None:
            return
        self._sleep(FIRST_S)
        while not self._over():
            try:
                self.round()
            except BatchscopeError as error:
                log.error("retention: %s", error)
            self._sleep(EVERY_S)

    def round(self) -> dict[str, int]:
        """All of it, once; rows by table."""
        rule, gone = self.rule or Rule(), dict[str, int]()
        since: int | None = None
        while not self._over():
            told = self._job(partial(pruned, rule=rule, since=since, seconds=WORK_S))
            for name, rows in told["removed"].items():
                gone[name] = gone.get(name, 0) + rows
            if told["done"]:
                break
            since = wall_ns(told["reached"], "since")
            self._sleep(REST_S)
        if gone:
            log.info("retention removed %s", ", ".join(f"{rows} {name}" for name, rows in gone.items()))
        return gone


def rule_of(settings: ServerSettings) -> Rule | None:
    """What the settings keep; None: everything."""
    if not settings.retain_days and not settings.retain_gb:
        return None
    return Rule(
        older_than_s=settings.retain_days * 86_400 or None,
        larger_than=round(settings.retain_gb * 10**9) or None,
        cause="retention",
    )
