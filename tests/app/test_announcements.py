"""A start says that it serves when it does: not before the engine accepted its settings, and not twice."""

from __future__ import annotations

from app.announcements import QUIET_S, announcements
from scheduler.settings import ModelSettings

URL, SIMULATED = "http://127.0.0.1:8000", ModelSettings(runner="simulated", hardware="h")


def test_nothing_is_announced_until_the_engine_is_up_and_then_once() -> None:
    state, now = ["loading"], [0.0]
    lines = announcements(URL, SIMULATED, lambda: state[0], lambda: now[0])
    assert [next(lines), next(lines)] == [[], []]
    state[0] = "up"
    first, second = next(lines)
    assert first == f"Batchscope serves on {URL}  (runner simulated: h)" and f"Open {URL}/" in second
    assert list(lines) == []


def test_a_long_load_is_called_a_load_once_with_the_address_that_shows_it() -> None:
    state, now = ["loading"], [0.0]
    lines = announcements(URL, ModelSettings(), lambda: state[0], lambda: now[0])
    assert next(lines) == []
    now[0] = QUIET_S
    (said,) = next(lines)
    assert said.startswith("Loading (runner torch: SmolLM2-135M-Instruct)") and URL in said and "serves" not in said
    assert next(lines) == []


def test_an_engine_that_died_or_cannot_start_is_not_said_to_load_or_serve() -> None:
    state, now = ["failed"], [0.0]
    lines = announcements(URL, SIMULATED, lambda: state[0], lambda: now[0])
    for dead in ("failed", "down"):
        state[0], now[0] = dead, now[0] + QUIET_S
        assert next(lines) == []
