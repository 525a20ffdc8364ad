"""A decoded body → a typed Generation, or a 400 that names the field. Pure: knows no socket, no engine, no tokenizer.

A known field that is not built is refused by name unless it has its neutral value; an unknown field is let through and
listed. Invariant: a Generation that exists has every value in range, whatever was sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.api import fields
from app.api.errors import ApiError, Problem, bad
from app.api.openai_input import parse_messages, parse_prompts
from scheduler.core.request import SamplingParams

COMPLETIONS = "completions"
CHAT = "chat/completions"
MAX_SEQUENCES = 128
MAX_STOPS = 16
MAX_STOP_CHARACTERS = 1000
GREEDY_BELOW = 1e-5  # as vLLM: dividing by less overflows the logits
DAY_MS = 86_400_000

COMMON_FIELDS = frozenset(
    {
        "model", "max_tokens", "temperature", "top_p", "n", "stop", "stream", "stream_options", "seed", "user", "logprobs",
        "presence_penalty", "frequency_penalty", "logit_bias", "top_k", "min_p", "min_tokens", "ignore_eos", "stop_token_ids",
        "priority", "tenant", "kind", "deadline_ms", "timeout_ms", "expected_output_tokens",
    }
)  # fmt: skip
KNOWN = {
    COMPLETIONS: COMMON_FIELDS | {"prompt", "echo", "best_of", "suffix"},
    CHAT: COMMON_FIELDS | {"messages", "max_completion_tokens", "top_logprobs", "response_format"},
}
# Never accepted, even though unknown fields are: each of these asks for something that silence would fake.
REFUSED = (
    "tools", "functions", "tool_choice", "function_call", "audio", "modalities", "prediction", "web_search_options",
    "chat_template", "chat_template_kwargs", "prompt_embeds", "guided_json", "guided_regex", "guided_choice", "guided_grammar",
    "structured_outputs", "use_beam_search", "documents", "mm_processor_kwargs", "lora_request",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Model:
    """What parsing needs to know of the model that is served."""

    name: str
    vocab_size: int
    max_model_len: int


@dataclass(frozen=True, slots=True)
class Generation:
    """One POST, checked. `prompts`: texts or token ids; empty for a chat, whose `messages` are (role, content) pairs.

    `params.max_tokens` is 0 when the body names none: the default depends on the length of the prompt.
    """

    endpoint: str
    prompts: tuple[str | tuple[int, ...], ...]
    messages: tuple[tuple[str, str], ...]
    params: SamplingParams
    n: int
    stream: bool
    include_usage: bool
    include_timing: bool
    echo: bool
    tenant: str | None
    kind: str
    priority: int
    deadline_ms: float | None
    timeout_ms: float | None
    expected_output_tokens: int | None
    ignored_fields: tuple[str, ...]

    @property
    def sequences(self) -> int:
        """How many sequences the POST asks for."""
        return self.n * max(1, len(self.prompts))


def parse(endpoint: str, body: Mapping[str, Any], model: Model) -> Generation:
    """The Generation in `body`; raises ApiError."""
    check_model(body, model)
    for name in REFUSED:
        if body.get(name) not in (None, [], {}, "", False) and not (name == "modalities" and body[name] == ["text"]):
            raise fields.unsupported(name)
    chat = endpoint == CHAT
    prompts = () if chat else parse_prompts(body, model.vocab_size)
    messages = parse_messages(body) if chat else ()
    n = fields.integer(body, "n", 1, MAX_SEQUENCES) or 1
    if n * max(1, len(prompts)) > MAX_SEQUENCES:
        raise fields.invalid("n", f"n times the number of prompts must be at most {MAX_SEQUENCES}")
    stream = fields.boolean(body, "stream") or False
    include_usage, include_timing = _stream_options(body, stream)
    params = _sampling(body, model, chat)
    _not_built(body, model, chat)
    return Generation(
        endpoint=endpoint,
        prompts=prompts,
        messages=messages,
        params=params,
        n=n,
        stream=stream,
        include_usage=include_usage,
        include_timing=include_timing,
        echo=False if chat else fields.boolean(body, "echo") or False,
        tenant=fields.string(body, "tenant", 128, shortest=1) or fields.string(body, "user", 512) or None,
        kind=fields.string(body, "kind", 64, shortest=1) or "interactive",
        priority=fields.integer(body, "priority", -(2**31), 2**31 - 1) or 0,
        deadline_ms=fields.number(body, "deadline_ms", 0.001, DAY_MS),
        timeout_ms=fields.number(body, "timeout_ms", 0.001, DAY_MS),
        expected_output_tokens=fields.integer(body, "expected_output_tokens", 1, 1 << 20),
        ignored_fields=tuple(sorted(name[:64] for name in body if name not in KNOWN[endpoint] and name not in REFUSED)),
    )


def check_model(body: Mapping[str, Any], model: Model) -> None:
    """The body names the model that is served."""
    name = fields.string(body, "model", 512)
    if name is None:
        raise fields.missing("model")
    if name != model.name:
        message = f"the model {name[:80]!r} does not exist; {model.name!r} is served"
        raise ApiError(Problem(404, message, "model", "model_not_found"))


def _sampling(body: Mapping[str, Any], model: Model, chat: bool) -> SamplingParams:
    temperature = fields.number(body, "temperature", 0.0, 2.0)
    top_p = fields.number(body, "top_p", 0.0, 1.0)
    temperature = 1.0 if temperature is None else temperature
    if temperature < GREEDY_BELOW or top_p == 0.0:
        temperature, top_p = 0.0, 1.0
    top_k = fields.integer(body, "top_k", -1, 1 << 31) or 0
    max_tokens = _max_tokens(body, model, chat)
    min_tokens = fields.integer(body, "min_tokens", 0, 1 << 31) or 0
    if max_tokens and min_tokens > max_tokens:
        raise fields.invalid("min_tokens", f"min_tokens ({min_tokens}) is over max_tokens ({max_tokens})")
    stop_token_ids = fields.array(body, "stop_token_ids", MAX_SEQUENCES) or []
    return SamplingParams(
        temperature=temperature,
        top_p=1.0 if top_p is None else top_p,
        top_k=max(0, top_k),
        seed=fields.integer(body, "seed", -(2**63), 2**63 - 1),
        max_tokens=max_tokens,
        min_tokens=min_tokens,
        stop=_stops(body),
        stop_token_ids=fields.token_ids(stop_token_ids, "stop_token_ids", model.vocab_size),
        ignore_eos=fields.boolean(body, "ignore_eos") or False,
    )


def _max_tokens(body: Mapping[str, Any], model: Model, chat: bool) -> int:
    """0 when absent."""
    found = fields.integer(body, "max_tokens", 1, 1 << 31)
    if chat:
        newer = fields.integer(body, "max_completion_tokens", 1, 1 << 31)
        if found is not None and newer is not None and found != newer:
            raise fields.invalid("max_completion_tokens", "max_completion_tokens and max_tokens disagree")
        found = found if newer is None else newer
    return found or 0


def _stops(body: Mapping[str, Any]) -> tuple[str, ...]:
    stop = body.get("stop")
    if isinstance(stop, str):
        stop = [stop]
    stops = fields.array({"stop": stop}, "stop", MAX_STOPS) or []
    for text in stops:
        if not isinstance(text, str):
            raise fields.wrong_type("stop", "a string or an array of strings", text)
        if not 0 < len(text) <= MAX_STOP_CHARACTERS:
            raise fields.invalid("stop", f"a stop string must have 1 to {MAX_STOP_CHARACTERS} characters")
    return tuple(stops)


def _stream_options(body: Mapping[str, Any], stream: bool) -> tuple[bool, bool]:
    options = fields.mapping(body, "stream_options")
    if options is None:
        return False, False
    if not stream:
        raise fields.invalid("stream_options", "stream_options needs stream=true")
    return fields.boolean(options, "include_usage") or False, fields.boolean(options, "include_timing") or False


def _not_built(body: Mapping[str, Any], model: Model, chat: bool) -> None:
    """Fields of OpenAI or vLLM that this server knows and does not do: the range is checked, then any effect is refused."""
    asked: dict[str, object] = {
        "presence_penalty": fields.number(body, "presence_penalty", -2.0, 2.0),
        "frequency_penalty": fields.number(body, "frequency_penalty", -2.0, 2.0),
        "min_p": fields.number(body, "min_p", 0.0, 1.0),
        "logit_bias": _logit_bias(body, model.vocab_size),
    }
    if chat:
        asked["logprobs"] = fields.boolean(body, "logprobs")
        asked["top_logprobs"] = fields.integer(body, "top_logprobs", 0, 20)
        if asked["top_logprobs"] is not None and not asked["logprobs"]:
            raise fields.invalid("top_logprobs", "top_logprobs needs logprobs=true")
        form = fields.mapping(body, "response_format")
        asked["response_format"] = form not in (None, {}, {"type": "text"})
    else:
        logprobs = fields.integer(body, "logprobs", 0, 5)
        asked["logprobs"] = logprobs is not None
        best_of = fields.integer(body, "best_of", 1, MAX_SEQUENCES)
        asked["best_of"] = best_of is not None and best_of != (body.get("n") or 1)
        asked["suffix"] = fields.string(body, "suffix", 1 << 20)
    for name, value in asked.items():
        if value:
            raise fields.unsupported(name)


def _logit_bias(body: Mapping[str, Any], vocab_size: int) -> bool:
    bias = fields.mapping(body, "logit_bias") or {}
    for key, value in bias.items():
        if not (key.isascii() and key.isdigit() and len(key) < 12 and int(key) < vocab_size):
            raise fields.invalid("logit_bias", "logit_bias must map token ids of the vocabulary to numbers")
        if type(value) not in (int, float) or not -100 <= value <= 100:
            raise fields.invalid("logit_bias", "a logit bias must be a number between -100 and 100")
    return bool(bias)


def with_length(generation: Generation, prompt_tokens: int, model: Model) -> Generation:
    """The Generation with its max_tokens settled for a prompt of that length; raises when it cannot fit the context."""
    param = "messages" if generation.endpoint == CHAT else "prompt"
    room = model.max_model_len - prompt_tokens
    if room < 1:
        message = f"the prompt has {prompt_tokens} tokens; the context holds {model.max_model_len}, the answer included"
        raise bad(message, param, "context_length_exceeded")
    wanted = generation.params.max_tokens
    if wanted > room:
        message = f"prompt ({prompt_tokens}) and max_tokens ({wanted}) are over the context length of {model.max_model_len}"
        raise bad(message, "max_tokens", "context_length_exceeded")
    if not wanted:
        wanted = room if generation.endpoint == CHAT else min(16, room)
        if generation.params.min_tokens > wanted:
            raise fields.invalid("min_tokens", f"min_tokens is over the {wanted} tokens that the answer may have")
    return replace(generation, params=replace(generation.params, max_tokens=wanted))
