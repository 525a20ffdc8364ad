"""A Generation → its prompts as token ids, and a Submit a sequence. Knows no stream and no record.

Invariant: sequence p·n + k is choice k of prompt p; a prompt that can never be computed is refused here, before any record.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.api.errors import bad
from app.api.openai_parse import CHAT, Generation, Model, with_length
from app.store.accepted import sequence_ids
from scheduler.engine.messages import Submit
from scheduler.text.bundle import Text

MS = 1_000_000
INLINE_CHARACTERS = 2_000  # encoded in a millisecond or two: less than a native thread waits for its turn beside a busy hub


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts of a POST as ids. `text`: all of them, for the keyed hash; `echoes`: a choice, where asked for."""

    ids: tuple[tuple[int, ...], ...]
    text: str
    echoes: tuple[str, ...]

    @property
    def tokens(self) -> int:
        """Of all prompts together."""
        return sum(map(len, self.ids))


def read_prompts(
    generation: Generation, text: Text, model: Model, settings: Mapping[str, Any], run_native: Callable[..., Any]
) -> tuple[Generation, Prompts]:
    """Tokenize, what is long on a native thread, then settle max_tokens; raises ApiError when a prompt can never fit."""
    long = _characters(generation) > INLINE_CHARACTERS
    prompts: Prompts = run_native(_encode, generation, text) if long else _encode(generation, text)
    param = "messages" if generation.endpoint == CHAT else "prompt"
    longest = max(map(len, prompts.ids))
    if not all(prompts.ids):
        raise bad("the prompt has no token", param, "invalid_value")
    capacity = settings["kv_cache_tokens"]
    generation = with_length(generation, longest, model)
    if capacity and longest > capacity:
        message = f"the prompt has {longest} tokens and can never fit the KV cache of {capacity}"
        raise bad(message, param, "exceeds_kv_capacity")
    return generation, prompts


def _characters(generation: Generation) -> int:
    """How much there is to encode, or to decode: token ids need neither, unless they are to be echoed."""
    said = sum(len(content) for _, content in generation.messages)
    return said + sum(len(prompt) for prompt in generation.prompts if generation.echo or isinstance(prompt, str))


def _encode(generation: Generation, text: Text) -> Prompts:
    if generation.endpoint == CHAT:
        messages = [{"role": role, "content": content} for role, content in generation.messages]
        return Prompts(
            (tuple(text.encode_chat(messages)),), "\n".join(f"{role}: {said}" for role, said in generation.messages), ()
        )
    ids = tuple(tuple(text.encode(prompt)) if isinstance(prompt, str) else prompt for prompt in generation.prompts)
    texts = [prompt if isinstance(prompt, str) else "" for prompt in generation.prompts]
    shown = "\n".join(prompt if isinstance(prompt, str) else " ".join(map(str, prompt)) for prompt in generation.prompts)
    if not generation.echo:
        return Prompts(ids, shown, ())
    echoes = [said or text.decode(numbers) for said, numbers in zip(texts, ids, strict=True) for _ in range(generation.n)]
    return Prompts(ids, shown, tuple(echoes))


def submits_of(
    request_id: str,
    generation: Generation,
    prompts: Prompts,
    received_at: int,
    tenant: str,
    run: str | None,
    default_timeout_ms: float,
) -> list[Submit]:
    """One Submit a sequence; choices of a seeded request get successive seeds."""
    deadline, timeout, seed = generation.deadline_ms, generation.timeout_ms or default_timeout_ms, generation.params.seed
    encoded = [array("I", ids).tobytes() for ids in prompts.ids for _ in range(generation.n)]
    return [
        Submit(
            id=sequence_id,
            prompt=prompt,
            params=generation.params if seed is None else replace(generation.params, seed=_seed(seed, index % generation.n)),
            received_at=received_at,
            tenant=tenant,
            kind=generation.kind,
            priority=generation.priority,
            deadline_at=None if deadline is None else received_at + round(deadline * MS),
            timeout_at=received_at + round(timeout * MS),
            expected_output_tokens=generation.expected_output_tokens,
            run=run,
        )
        for index, (sequence_id, prompt) in enumerate(zip(sequence_ids(request_id, len(encoded)), encoded, strict=True))
    ]


def _seed(seed: int, choice: int) -> int:
    """Wraps at 64 bits, so that every choice has a lawful seed of its own."""
    return (seed + choice + 2**63) % 2**64 - 2**63
