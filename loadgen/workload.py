"""What requests ask: lengths, tenants and prompts, all drawn from (seed, stream, k). Knows no clock and no server.

Invariant: `draw` depends on its arguments alone, so that any process can make request k of a stream, in any order.
A prompt begins with words made from the run's nonce: two runs share no prefix block, so caches start cold.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from loadgen.scenario import Lengths, Mix, Scenario, Stream, Turn

# Common words, each one token (with its leading blank) in GPT-2-like vocabularies; a full stop is one more.
_TEXT = (
    "the a an this that each every some many few one two three river mountain valley forest garden village city street "
    "bridge harbor island ocean coast desert field farm market school library museum theater station engine machine wheel "
    "table window door wall roof floor lamp mirror clock paper letter story poem song music dance color light shadow morning "
    "evening night summer winter spring autumn rain snow wind storm cloud sun moon star sky earth water fire stone iron gold "
    "silver glass wood leaf tree flower seed fruit apple bread milk honey coffee tea dinner kitchen friend brother sister "
    "mother father child teacher doctor farmer sailor soldier artist writer reader traveler king queen prince leader worker "
    "neighbor horse dog cat bird fish bear wolf lion rabbit turtle walks runs sees hears finds makes builds carries opens "
    "closes begins ends keeps gives takes brings sends holds reads writes paints sings teaches learns thinks knows believes "
    "remembers hopes moves turns falls rises grows changes crosses follows leads visits watches waits speaks listens answers "
    "asks small large old young new early late quiet loud bright dark warm cold deep high low long short wide narrow soft hard "
    "slow fast strong weak gentle simple strange famous common hidden broken empty full red blue green white black golden and "
    "but or because while when after before under over near beside between across through around behind above inside outside "
    "with without from into toward along about during always never often sometimes today tomorrow again slowly quickly "
    "carefully together"
)
WORDS = _TEXT.split()
NONCE_WORDS = 6
SENTENCE = 12
BYTE_VOCABULARY = 1024  # a vocabulary below this size has a token for about every character


@dataclass(frozen=True, slots=True)
class Limits:
    """What the server says about its model; 0: it says nothing."""

    vocab_size: int = 0
    max_model_len: int = 0


@dataclass(frozen=True, slots=True)
class Ask:
    """One request before it is sent."""

    tenant: str
    kind: str
    prompt: str
    prompt_tokens: int
    output_tokens: int
    priority: int | None
    deadline_ms: int | None
    cancel_after_ms: int | None


def draw(stream: Stream, k: int, seed: int, nonce: str, limits: Limits = Limits()) -> Ask:  # noqa: B008 (frozen)
    """Request `k` of the stream; `nonce` "" sends the prompt without one."""
    rng = random.Random(f"{seed}/{stream.name}/{k}")
    mix = _choose(turn_of(stream, k), rng)
    output = sample(mix.output, rng)
    wanted = max(1, sample(mix.prompt, rng))
    if limits.max_model_len:
        output = min(output, max(1, limits.max_model_len // 2))
        wanted = min(wanted, max(1, limits.max_model_len - output - 8))
    prompt = mix.text or write_prompt(wanted, rng, nonce, limits.vocab_size)
    return Ask(mix.tenant, mix.kind, prompt, wanted, output, mix.priority, mix.deadline_ms, mix.cancel_after_ms)


def turn_of(stream: Stream, k: int) -> Turn:
    """The turn to which request `k` belongs."""
    k %= sum(turn.count for turn in stream.turns)
    for turn in stream.turns:
        if k < turn.count:
            return turn
        k -= turn.count
    raise AssertionError("k was reduced below the sum of counts")


def draw_any(stream: Stream, k: int, seed: int, nonce: str, limits: Limits = Limits()) -> Ask:  # noqa: B008 (frozen)
    """A request from the turns mixed together, each by its count: what a stream asks on the whole."""
    rng = random.Random(f"{seed}/{stream.name}/any/{k}")
    return draw(stream, rng.randrange(sum(turn.count for turn in stream.turns)) + (k + 1) * 1_000_003, seed, nonce, limits)


def sample(lengths: Lengths, rng: random.Random) -> int:
    """A number of tokens."""
    if lengths.dist == "lognormal":
        return max(lengths.low, min(lengths.high, round(rng.lognormvariate(math.log(lengths.median), lengths.sigma))))
    return rng.randint(lengths.low, lengths.high)


def mean(lengths: Lengths) -> float:
    """The expected number of tokens (a lognormal's cut at low and high is left out)."""
    if lengths.dist == "lognormal":
        return lengths.median * math.exp(lengths.sigma**2 / 2)
    return (lengths.low + lengths.high) / 2


def works(stream: Stream) -> Iterator[float]:
    """The expected work of request 0, 1, 2, …, in decode tokens; a prompt token weighs `prefill_weight` of one."""
    weight = stream.arrivals.prefill_weight
    per_turn = []
    for turn in stream.turns:
        total = sum(mix.weight for mix in turn.mix)
        work = sum(mix.weight * (weight * mean(mix.prompt) + mean(mix.output)) for mix in turn.mix) / total
        per_turn += [work] * turn.count
    return cycle(per_turn)


def write_prompt(tokens: int, rng: random.Random, nonce: str, vocab_size: int = 0) -> str:
    """English-like text of about `tokens` tokens that begins with the nonce's words."""
    bytewise = 0 < vocab_size < BYTE_VOCABULARY
    words = nonce_words(nonce) if nonce else []
    size = len(words)
    while size < tokens:
        words.append(rng.choice(WORDS))
        size += 1
        if size % SENTENCE == SENTENCE - 1 and size < tokens:
            words[-1] += "."
            size += 1
    text = " ".join(words[: max(1, tokens)])
    return text[:tokens] if bytewise else text


def nonce_words(nonce: str) -> list[str]:
    digest = hashlib.blake2b(nonce.encode(), digest_size=NONCE_WORDS * 2).digest()
    return [WORDS[int.from_bytes(digest[i : i + 2], "big") % len(WORDS)] for i in range(0, len(digest), 2)]


def body_of(scenario: Scenario, ask: Ask, model: str) -> dict[str, Any]:
    """The JSON body: streamed, with usage, the output length forced where the scenario says so."""
    body: dict[str, Any] = {"model": model, "stream": True, "stream_options": {"include_usage": True}}
    if scenario.endpoint == "chat":
        body["messages"] = [{"role": "user", "content": ask.prompt}]
    else:
        body["prompt"] = ask.prompt
    body |= {"max_tokens": ask.output_tokens, "temperature": scenario.temperature, "user": ask.tenant, "kind": ask.kind}
    if scenario.ignore_eos:
        body["ignore_eos"] = True
    if ask.priority is not None:
        body["priority"] = ask.priority
    if ask.deadline_ms is not None:
        body["deadline_ms"] = ask.deadline_ms
    return body


def path_of(scenario: Scenario) -> str:
    return "/v1/chat/completions" if scenario.endpoint == "chat" else "/v1/completions"


def _choose(turn: Turn, rng: random.Random) -> Mix:
    if len(turn.mix) == 1:
        return turn.mix[0]
    return rng.choices(turn.mix, [mix.weight for mix in turn.mix])[0]
