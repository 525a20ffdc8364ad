"""Prompts and messages of a body → texts, ids and (role, content) pairs. Pure; knows no tokenizer.

Invariant: what is returned is not empty, and every token id lies inside the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.api import fields
from app.api.errors import ApiError, bad

MAX_PROMPTS = 128
MAX_MESSAGES = 4096
ROLES = ("system", "developer", "user", "assistant", "tool")


def parse_prompts(body: Mapping[str, Any], vocab_size: int) -> tuple[str | tuple[int, ...], ...]:
    """A string, a list of strings, a list of ids or a list of lists of ids."""
    prompt = body.get("prompt")
    if prompt is None:
        raise fields.missing("prompt")
    if isinstance(prompt, str):
        return (_not_empty(prompt),)
    if not isinstance(prompt, list):
        raise fields.wrong_type("prompt", "a string or an array", prompt)
    if not prompt:
        raise _empty_array("prompt")
    if all(type(item) is int for item in prompt):
        return (fields.token_ids(prompt, "prompt", vocab_size),)
    if len(prompt) > MAX_PROMPTS:
        raise bad(f"prompt must have at most {MAX_PROMPTS} elements", "prompt", "array_above_max_length")
    if all(isinstance(item, str) for item in prompt):
        return tuple(_not_empty(item) for item in prompt)
    if all(isinstance(item, list) for item in prompt):
        if not all(prompt):
            raise _empty_array("prompt")
        return tuple(fields.token_ids(item, "prompt", vocab_size) for item in prompt)
    raise bad("prompt must hold only strings, only token ids, or only arrays of token ids", "prompt", "invalid_type")


def parse_messages(body: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """(role, content) pairs; text parts are joined as vLLM joins them, by a line break."""
    messages = fields.array(body, "messages", MAX_MESSAGES)
    if messages is None:
        raise fields.missing("messages")
    if not messages:
        raise _empty_array("messages")
    return tuple(_message(item, f"messages[{index}]") for index, item in enumerate(messages))


def _message(item: Any, path: str) -> tuple[str, str]:
    if not isinstance(item, dict):
        raise fields.wrong_type(path, "an object", item)
    role = _role(item, f"{path}.role")
    for name in ("tool_calls", "function_call", "audio", "refusal"):
        if item.get(name):
            raise fields.unsupported(f"{path}.{name}")
    return role, _content(item.get("content"), f"{path}.content")


def _role(item: Mapping[str, Any], path: str) -> str:
    role = item.get("role")
    if role is None:
        raise fields.missing(path)
    if not isinstance(role, str):
        raise fields.wrong_type(path, "a string", role)
    if role not in ROLES:
        raise fields.invalid(path, f"{path} must be one of {', '.join(ROLES)}")
    return "system" if role == "developer" else role


def _content(content: Any, path: str) -> str:
    if content is None:
        raise fields.missing(path)
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise fields.wrong_type(path, "a string or an array of parts", content)
    if not content:
        raise _empty_array(path)
    return "\n".join(_part(part, f"{path}[{index}]") for index, part in enumerate(content))


def _part(part: Any, path: str) -> str:
    if not isinstance(part, dict):
        raise fields.wrong_type(path, "an object", part)
    if part.get("type") is None:
        raise fields.missing(f"{path}.type")
    if part["type"] != "text":
        raise fields.invalid(f"{path}.type", "only parts of type 'text' are supported")
    text = part.get("text")
    if text is None:
        raise fields.missing(f"{path}.text")
    if not isinstance(text, str):
        raise fields.wrong_type(f"{path}.text", "a string", text)
    return text


def _not_empty(text: str) -> str:
    if not text:
        raise fields.invalid("prompt", "a prompt must not be empty")
    return text


def _empty_array(param: str) -> ApiError:
    return bad(f"{param} must not be empty", param, "empty_array")
