"""Bundle: everything textual of one model, loaded from its files. Torch-free, so that the web process may hold it too.

A model's directory (Hugging Face layout) gives tokenizer.json, config.json and chat_template.jinja; the runners without
a model get the built-in byte tokenizer. Knows no weights and no request.
Invariant: web and engine load the same directory, so both agree on every id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from scheduler.errors import ModelError, in_words
from scheduler.settings import MAX_TOKENS, ModelSettings
from scheduler.text.byte_tokenizer import EOS_TOKEN_ID, VOCAB_SIZE, ByteTokenizer
from scheduler.text.chat import CHATML, ChatTemplate
from scheduler.text.file_tokenizer import FileTokenizer
from scheduler.text.stream import TextStream
from scheduler.text.tokenizer import Tokenizer

__all__ = ["Text", "TextStream", "load", "model_directory"]


class Text:
    """Ids and text of one model. `encode_chat` raises ModelError for a model without a chat template."""

    def __init__(
        self,
        name: str,
        tokenizer: Tokenizer,
        template: ChatTemplate | None,
        *,
        vocab_size: int,
        eos_token_ids: tuple[int, ...],
        max_model_len: int,
    ) -> None:
        self.name = name
        self.vocab_size = vocab_size
        self.eos_token_ids = eos_token_ids
        self.max_model_len = max_model_len
        self._tokenizer = tokenizer
        self._template = template

    def encode(self, text: str) -> list[int]:
        """Ids of a bare prompt, with the model's begin-of-text id if it wants one; specials in `text` stay text."""
        return self._tokenizer.opening() + self._tokenizer.encode(text)

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Ids of a conversation, open for the assistant's turn; specials inside messages stay text."""
        if self._template is None:
            raise ModelError(f"{self.name} has no chat template", "messages")
        return self._template.encode(messages, self._tokenizer)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids` as a whole; specials add nothing."""
        stream = self.stream((), ())
        return "".join([*(stream.push(number)[0] for number in ids), stream.flush()])

    def stream(self, stops: tuple[str, ...], prompt_ids: Sequence[int], min_tokens: int = 0) -> TextStream:
        """The output text of one sequence, as it grows. The text of the first `min_tokens` is not searched for stops."""
        return TextStream(self._tokenizer, stops, prompt_ids, min_tokens)


def load(model: ModelSettings) -> Text:
    """The text side of what `model` names; raises ModelError when its files are absent or unusable."""
    if model.runner != "torch":
        return Text(
            model.runner,
            ByteTokenizer(),
            ChatTemplate(CHATML, {}),
            vocab_size=VOCAB_SIZE,
            eos_token_ids=(EOS_TOKEN_ID,),
            max_model_len=MAX_TOKENS,
        )
    return _from_directory(model_directory(model))


def model_directory(model: ModelSettings) -> Path:
    """Where the files of `model` are, or will be once made: the named directory itself, else one in the cache."""
    named = Path(model.model)
    return named if (named / "config.json").is_file() else Path(model.cache_dir) / model.model


@lru_cache(maxsize=1)  # a process has one model, whose tokenizer takes longer to read than anything else here
def _from_directory(directory: Path) -> Text:
    config = _read_json(directory / "config.json")
    generation = directory / "generation_config.json"
    ends = _read_json(generation).get("eos_token_id") if generation.is_file() else None
    tokenizer = FileTokenizer(directory / "tokenizer.json")
    return Text(
        directory.resolve().name,
        tokenizer,
        _template(directory),
        vocab_size=int(config["vocab_size"]),
        eos_token_ids=id_tuple(ends if ends is not None else config.get("eos_token_id")),
        max_model_len=int(config["max_position_embeddings"]),
    )


def id_tuple(value: int | list[int] | None) -> tuple[int, ...]:
    """Configuration files write one id, several, or null."""
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else tuple(value)


def _template(directory: Path) -> ChatTemplate | None:
    """chat_template.jinja, or what tokenizer_config.json carries; None for a model that does not chat."""
    settings_file, template_file = directory / "tokenizer_config.json", directory / "chat_template.jinja"
    settings = _read_json(settings_file) if settings_file.is_file() else {}
    source = template_file.read_text(encoding="utf-8") if template_file.is_file() else settings.get("chat_template")
    if not isinstance(source, str):
        return None
    tokens = {name: settings.get(name) or "" for name in ("bos_token", "eos_token", "pad_token", "unk_token")}
    return ChatTemplate(source, {name: _token_text(value) for name, value in tokens.items()})


def _token_text(value: str | dict[str, Any]) -> str:
    return value if isinstance(value, str) else str(value["content"])


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: {in_words(error)}", str(path)) from error
    if not isinstance(value, dict):
        raise ModelError(f"{path}: expected an object", str(path))
    return value
