"""ByteTokenizer: one id a UTF-8 byte, three specials above them. For runners without a model; needs no file.

Invariant: decode(encode(text)) == text for every text that UTF-8 can hold.
"""

from __future__ import annotations

END_OF_TEXT_ID = 256
TURN_START_ID = 257
EOS_TOKEN_ID = 258
VOCAB_SIZE = 259


class ByteTokenizer:
    """256 bytes, then `<|endoftext|>`, `<|im_start|>` and `<|im_end|>` (the end-of-sequence id)."""

    strip_first = False

    def __init__(self) -> None:
        self.special = {"<|endoftext|>": END_OF_TEXT_ID, "<|im_start|>": TURN_START_ID, "<|im_end|>": EOS_TOKEN_ID}
        self.token_bytes = [bytes([value]) for value in range(256)] + [b""] * (VOCAB_SIZE - 256)

    def encode(self, text: str) -> list[int]:
        """The bytes of `text`; a lone surrogate, which UTF-8 cannot hold, becomes U+FFFD."""
        return list(text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode())

    def opening(self) -> list[int]:
        """A bare prompt starts with itself."""
        return []
