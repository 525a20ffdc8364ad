"""What a start says on the terminal, look by look. Knows no socket and no process; `app.serve` prints it.

Invariant: that it serves is said once, when the engine has accepted its settings, and never before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from scheduler.runners.cost_model import DEFAULT_HARDWARE
from scheduler.settings import ModelSettings

QUIET_S = 2.0  # an engine without weights is up by then, or has refused


def announcements(
    url: str, model: ModelSettings, state: Callable[[], str], clock: Callable[[], float] = time.monotonic
) -> Iterator[list[str]]:
    """Lines to print at each look at the engine's `state`: that it loads, where that takes a while; then that it serves.

    That was the last.
    """
    simulated = f"simulated: {model.hardware or DEFAULT_HARDWARE}"
    what = {"torch": f"torch: {model.model}", "simulated": simulated}.get(model.runner, model.runner)
    began, said = clock(), False
    while (now := state()) != "up":
        slow = not said and now == "loading" and clock() - began >= QUIET_S
        said = said or slow
        yield [f"Loading (runner {what}); {url}/ answers already and shows how far it is."] if slow else []
    yield [
        f"Batchscope serves on {url}  (runner {what})",
        f"Open {url}/ and press “Start first_look”: a queue forms, and the page says what it waits for.",
    ]
