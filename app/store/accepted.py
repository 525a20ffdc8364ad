"""What the web tells the writer beside core events: frozen values, no behaviour but their own defaults.

Invariant: `id` is the POST's id; a sequence of it is `id` itself when there is one, else `id/0`, `id/1`, …
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Reason = Literal["stop", "length", "abort", "timeout", "rejected", "error"]


@dataclass(frozen=True, slots=True)
class AcceptedRow:
    """One POST as it came in. `received_at` monotonic ns, `received_wall` epoch ns, the same instant.

    `policy`: None lets the writer take the one in force when the engine queued it. `prompt_tokens`: None lets it sum
    those of the sequences at the end. `prompt_text` only where recording text was asked for.
    """

    id: str
    received_at: int
    received_wall: int
    endpoint: str
    stream: bool = False
    model: str | None = None
    run: str | None = None
    client_request_id: str | None = None
    tenant: str = "default"
    kind: str = "interactive"
    priority: int = 0
    policy: str | None = None
    sequences: int = 1
    prompt_tokens: int | None = None
    max_tokens: int | None = None
    deadline_ms: float | None = None
    timeout_ms: float | None = None
    ignored_fields: tuple[str, ...] = ()
    prompt_hash: str | None = None
    prompt_text: str | None = None

    @property
    def sequence_ids(self) -> list[str]:
        """The ids that the engine knows its sequences by."""
        return sequence_ids(self.id, self.sequences)


@dataclass(frozen=True, slots=True)
class WebEnd:
    """The web ends a request that the engine cannot end: refused, engine crashed, engine down when the client left.

    `at` None: the instant is unknown (found open after a crash). `output_tokens`: what was delivered, where known.
    """

    id: str
    reason: Reason
    detail: str | None
    at: int | None
    status_code: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Amend:
    """What only the web knows of a request, when it knows it: the status it answered, the text if recorded."""

    id: str
    status_code: int | None = None
    output_text: str | None = None


def sequence_ids(request_id: str, sequences: int) -> list[str]:
    """The bare id for one sequence, else id/0, id/1, …"""
    return [request_id] if sequences == 1 else [f"{request_id}/{index}" for index in range(sequences)]
