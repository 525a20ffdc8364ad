"""FileTokenizer: a Hugging Face tokenizer.json, run by `tokenizers`. Knows no template.

Two families of decoder are understood, each as a table from id to bytes: byte-level BPE (GPT-2's alphabet of printable
stand-ins for bytes) and SentencePiece-like (`▁` for a space, `<0x0A>` for a byte). Another one is a ModelError: without
bytes, a character split over two tokens could not be held back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend

from scheduler.errors import ModelError

_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")
_SPACE = "\u2581"


class FileTokenizer:
    """A tokenizer.json. Specials in text stay text: `encode_special_tokens` is the library's word for exactly that."""

    def __init__(self, path: Path) -> None:
        try:
            source = path.read_text(encoding="utf-8")
            backend = Backend.from_str(source)
        except Exception as error:  # the library raises bare Exception for a malformed file
            raise ModelError(f"{path}: not a usable tokenizer: {error}", str(path)) from error
        backend.encode_special_tokens = True
        backend.no_padding()
        backend.no_truncation()
        self._backend = backend
        added = backend.get_added_tokens_decoder()
        self.special = {token.content: number for number, token in added.items() if token.special}
        to_bytes, self.strip_first = _decoder(json.loads(source).get("decoder"), path)
        self.token_bytes = [
            self._bytes_of(number, to_bytes, {number: token.content for number, token in added.items()})
            for number in range(backend.get_vocab_size(with_added_tokens=True))
        ]

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, without the tokens that a post-processor would add; a lone surrogate becomes U+FFFD."""
        clean = text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        return list(self._backend.encode(clean, add_special_tokens=False).ids)

    def opening(self) -> list[int]:
        """What the file's post-processor puts before a single sequence: its ids for the empty text."""
        return list(self._backend.encode("", add_special_tokens=True).ids)

    def _bytes_of(self, number: int, to_bytes: Callable[[str], bytes], added: dict[int, str]) -> bytes:
        if number in added:
            return b"" if added[number] in self.special else added[number].encode()
        token = self._backend.id_to_token(number)
        return b"" if token is None else to_bytes(token)


def byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in for each byte: printable Latin-1 stands for itself, the others are moved above 255."""
    own = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    moved = [value for value in range(256) if value not in own]
    return {chr(value): value for value in own} | {chr(256 + place): value for place, value in enumerate(moved)}


def _decoder(spec: dict[str, Any] | None, path: Path) -> tuple[Callable[[str], bytes], bool]:
    parts = (spec or {}).get("decoders") or ([spec] if spec else [])
    kinds = {part["type"] for part in parts}
    if "ByteLevel" in kinds:
        alphabet = byte_alphabet()
        return lambda token: _from_alphabet(token, alphabet), False
    if kinds & {"Metaspace", "ByteFallback", "Replace"}:
        return _from_pieces, bool(kinds & {"Strip", "Metaspace"})
    raise ModelError(f"{path}: unknown decoder {sorted(kinds)}", str(path))


def _from_alphabet(token: str, alphabet: dict[str, int]) -> bytes:
    if all(character in alphabet for character in token):
        return bytes(alphabet[character] for character in token)
    return token.encode()


def _from_pieces(token: str) -> bytes:
    if match := _BYTE_TOKEN.fullmatch(token):
        return bytes([int(match[1], 16)])
    return token.replace(_SPACE, " ").encode()
