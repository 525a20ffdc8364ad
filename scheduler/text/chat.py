"""ChatTemplate: messages to ids, by a Jinja template from an untrusted file (sandboxed). Knows no HTTP.

A template places special tokens by writing their text (`<|im_end|>`), so a user who writes the same text could end his
own turn and speak as the system. Here he cannot: before rendering, every special token's text inside a message is
replaced by a stand-in that occurs nowhere else; the rendered text is cut at the specials that remain, all of them the
template's own; each stretch between them gets its words back and is encoded as ordinary text.
Invariant: the special ids of `encode` are exactly those the template itself places; for messages without special tokens'
text the ids equal those of encoding the rendered text with specials parsed (what transformers does).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from scheduler.errors import ModelError
from scheduler.text.tokenizer import Tokenizer

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


class ChatTemplate:
    """A compiled template. `tokens`: names such as bos_token that it may use, and their text."""

    def __init__(self, source: str, tokens: Mapping[str, str]) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise ModelError(f"the chat template does not compile: {error}", "chat_template") from error
        self._tokens = dict(tokens)

    def render(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The text of `messages`, open for the assistant's turn; raises ModelError where the template refuses them."""
        try:
            return self._template.render(messages=messages, add_generation_prompt=True, **self._tokens)
        except (TemplateError, TypeError, ValueError) as error:
            raise ModelError(f"the chat template refused the messages: {error}", "messages") from error

    def encode(self, messages: Sequence[Mapping[str, str]], tokenizer: Tokenizer) -> list[int]:
        """The ids of `messages`; specials stand only where the template put them."""
        special = _pattern(tokenizer.special)
        stand_in = _unused(messages)
        shielded, words = _shield(messages, special, stand_in)
        restore = re.compile(f"{stand_in[0]}(\\d+){stand_in[1]}")
        ids: list[int] = []
        for place, stretch in enumerate(special.split(self.render(shielded))):
            if place % 2:
                ids.append(tokenizer.special[stretch])
            elif stretch:
                ids.extend(tokenizer.encode(restore.sub(lambda match: words[int(match[1])], stretch)))
        return ids


def _pattern(special: Mapping[str, int]) -> re.Pattern[str]:
    """Any special token's text, the longest first, as one group; matches nothing when there is none."""
    texts = sorted(special, key=lambda text: (-len(text), text))
    return re.compile(f"({'|'.join(map(re.escape, texts))})" if texts else "((?!))")


def _unused(messages: Sequence[Mapping[str, str]]) -> tuple[str, str]:
    """Two private-use characters, opening and closing, that no message contains."""
    used = {character for message in messages for value in message.values() for character in value}
    free = (chr(code) for code in range(0xF0000, 0xFFFFE) if chr(code) not in used)
    return next(free), next(free)


def _shield(
    messages: Sequence[Mapping[str, str]], special: re.Pattern[str], stand_in: tuple[str, str]
) -> tuple[list[dict[str, str]], list[str]]:
    """The messages with each special token's text replaced by a numbered stand-in, and the texts by number."""
    words: list[str] = []

    def replace(match: re.Match[str]) -> str:
        words.append(match[0])
        return f"{stand_in[0]}{len(words) - 1}{stand_in[1]}"

    return [{name: special.sub(replace, value) for name, value in message.items()} for message in messages], words


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None) -> str:
    """Jinja's own filter escapes HTML, which a prompt is not."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)
