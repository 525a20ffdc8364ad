"""Generator: the load generator's child process: started, followed, ended. Knows its flags and its lines, no run's life.

It takes orders on its stdin, and says in its lines what became of them.
Invariant: the child lives in a process group of its own, sees no more of our environment than it needs, and no word of a
person reaches a shell: arguments are a list, values travel as `--flag=value`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

log = logging.getLogger("batchscope")

ROOT = Path(__file__).resolve().parents[2]
ERRORS = "stderr.log"
LOG_LINES, LOG_BYTES = 200, 65_536
STOP_S = 12.0  # its own drain takes up to 5 s
KEPT_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True)
class Order:
    """What the child is to do."""

    run: str
    scenario: str
    url: str
    seed: int
    set: Mapping[str, Any]
    processes: int
    out: Path
    key: str = ""


class Generator:
    """One child. `progress` until it ends, then `code` and `last_words`."""

    def __init__(self, order: Order) -> None:
        self.requests = order.out / "requests.jsonl"
        self._errors = order.out / ERRORS
        order.out.mkdir(parents=True, exist_ok=True)
        with self._errors.open("wb") as errors:
            self._child = subprocess.Popen(
                command(order),
                cwd=ROOT,
                env=environment(order.key),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )

    def progress(self) -> Iterator[dict[str, Any]]:
        """Its progress lines, as they come, until it closes its output."""
        assert self._child.stdout is not None
        with self._child.stdout as lines:
            for line in lines:
                said = _decoded(line)
                if said.get("type") == "progress":
                    yield said

    def order(self, **order: Any) -> None:
        """Say it to the child, which may have ended."""
        assert self._child.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._child.stdin.write(json.dumps(order).encode() + b"\n")
            self._child.stdin.flush()

    def code(self) -> int:
        """Its exit code; waits for it."""
        code = self._child.wait()
        if self._child.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._child.stdin.close()
        return code

    def last_words(self, characters: int = 400) -> str:
        """The end of what it wrote to stderr."""
        lines = log_lines(self._errors)
        return " | ".join(lines[-3:])[-characters:] if lines else "it said nothing"

    def end(self, now: bool = False) -> None:
        """SIGTERM, and after a while SIGKILL to the whole group. `now`: what is in flight is not waited for."""
        if now:
            self.order(stop="now")
        with contextlib.suppress(ProcessLookupError):
            self._child.send_signal(signal.SIGTERM)
        try:
            self._child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()


def log_lines(path: Path, most: int = LOG_LINES) -> list[str]:
    """The last lines of a file that a generator wrote its errors to; none where there is no file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_BYTES))
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
    except FileNotFoundError:
        return []
    return lines[-most:]


def command(order: Order) -> list[str]:
    """The child's argument list."""
    words = [sys.executable, "-m", "loadgen", f"--scenario={order.scenario}", f"--url={order.url}", f"--run={order.run}"]
    words += [f"--seed={order.seed}", f"--out={order.out.resolve()}", f"--processes={order.processes}", "--orders"]
    return words + [f"--set={name}={_text(value)}" for name, value in order.set.items()]


def environment(key: str) -> dict[str, str]:
    """The child's whole environment; `key` is what it sends as its API key."""
    kept = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    return kept | ({"BATCHSCOPE_API_KEY": key} if key else {}) | {"PYTHONUNBUFFERED": "1"}


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        log.warning("the load generator said %r", line[:200])
        return {}
    return said


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
