"""Tokenizer: what the rest of this room needs of one, and the shape of any. Knows no model and no template.

Invariant: `encode` never yields a special id, whatever the text says; `token_bytes[i]` is what id i adds to the output
(nothing, for specials), so that decoding is joining bytes and any cut between tokens can be undone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class Tokenizer(Protocol):
    """Text to ids, and ids to bytes.

    special       text of each special token → its id; only a chat template may place them
    token_bytes   by id, the UTF-8 bytes (perhaps a part of a character) that it stands for
    strip_first   the first output character is dropped if it is a space (SentencePiece's dummy prefix)
    """

    @property
    def special(self) -> Mapping[str, int]: ...

    @property
    def token_bytes(self) -> Sequence[bytes]: ...

    @property
    def strip_first(self) -> bool: ...

    def encode(self, text: str) -> list[int]:
        """Ids of `text`; special tokens in it are ordinary text."""

    def opening(self) -> list[int]:
        """Ids that the model expects before a bare prompt (a begin-of-text token, or none)."""
