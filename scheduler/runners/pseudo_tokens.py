"""Tokens for runners without a model: reproducible, readable, and never an end of text. Knows no plan."""

from __future__ import annotations

_MASK = (1 << 64) - 1
_WORDS = b"the queue waits while one step runs and a batch of tokens moves on "


def token_at(seed: int, position: int) -> int:
    """The byte at `position` of an endless text that begins somewhere in a fixed sentence, by `seed`."""
    return _WORDS[(seed % len(_WORDS) + position) % len(_WORDS)]


def seed_of(text: str) -> int:
    """A 64-bit seed from a string, the same in every process (FNV-1a)."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & _MASK
    return value
