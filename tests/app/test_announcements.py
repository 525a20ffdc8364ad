"""A start says that it serves when it does: not before the engine accepted its settings, and not twice."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.announcements import QUIET_S, announcements
from scheduler.settings import ModelSettings


@dataclass
class _Status:
    state: str = "loading"


@dataclass
class _Engine:
    status: _Status = field(default_factory=_Status)


URL, SIMULATED = "http://127.0.0.1:8000", ModelSettings(runner="simulated", hardware="h")


def test_nothing_is_announced_until_the_engine_is_up_and_then_once() -> None:
    engine, now = _Engine(), [0.0]
    lines = announcements(URL, SIMULATED, engine, lambda: now[0])
    assert [next(lines), next(lines)] == [[], []]
    engine.status.state = "up"
    first, second = next(lines)
    assert first == f"Batchscope serves on {URL}  (runner simulated: h)" and f"Open {URL}/" in second
    assert list(lines) == []


def test_a_long_load_is_called_a_load_once_with_the_address_that_shows_it() -> None:
    engine, now = _Engine(), [0.0]
    lines = announcements(URL, ModelSettings(), engine, lambda: now[0])
    assert next(lines) == []
    now[0] = QUIET_S
    (said,) = next(lines)
    assert said.startswith("Loading (runner torch: SmolLM2-135M-Instruct)") and URL in said and "serves" not in said
    assert next(lines) == []


def test_an_engine_that_died_or_cannot_start_is_not_said_to_load_or_serve() -> None:
    engine, now = _Engine(_Status("failed")), [0.0]
    lines = announcements(URL, SIMULATED, engine, lambda: now[0])
    for state in ("failed", "down"):
        engine.status.state, now[0] = state, now[0] + QUIET_S
        assert next(lines) == []
