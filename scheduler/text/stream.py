"""TextStream: tokens in, text that may be shown out. Knows no request and no step.

What may go out: whole characters only (U+FFFD stands for bytes that can never become one), and nothing that could still
turn out to be the start of a stop string. Where several stops overlap, the one that is complete first wins, the longest
of those that end together: so the result depends on the text alone, never on where tokens or chunks were cut.
Invariant: the pieces joined == the whole output decoded at once, cut at its first stop.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from scheduler.text.tokenizer import Tokenizer

_PROMPT_TAIL = 8  # tokens; a character has at most 4 bytes, and specials between them have none


class StopMatcher:
    """Finds the first of several strings in a text that comes in pieces (Knuth-Morris-Pratt, one state a string)."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = tuple(dict.fromkeys(stop for stop in stops if stop))
        self._failures = [_failure_table(stop) for stop in self._stops]
        self._matched = [0] * len(self._stops)
        self.held = ""

    def feed(self, piece: str) -> tuple[str, str | None]:
        """Text that is now free of suspicion, and the stop that was completed. After a stop, feed no more."""
        if not self._stops:
            return piece, None
        text = self.held + piece
        for position in range(len(self.held), len(text)):
            stop = self._step(text[position])
            if stop is not None:
                self.held = ""
                return text[: position + 1 - len(stop)], stop
        kept = len(text) - max(self._matched)
        self.held = text[kept:]
        return text[:kept], None

    def release(self) -> str:
        """The text ended: what was held back is no stop after all."""
        held, self.held = self.held, ""
        self._matched = [0] * len(self._stops)
        return held

    def _step(self, character: str) -> str | None:
        found = None
        for index, stop in enumerate(self._stops):
            matched = self._matched[index]
            while matched and stop[matched] != character:
                matched = self._failures[index][matched - 1]
            matched += stop[matched] == character
            self._matched[index] = matched
            if matched == len(stop) and (found is None or len(stop) > len(found)):
                found = stop
        return found


class TextStream:
    """The output text of one sequence. `min_tokens`: the text of that many first tokens is not searched for stops."""

    def __init__(self, tokenizer: Tokenizer, stops: tuple[str, ...], prompt_ids: Sequence[int], min_tokens: int = 0) -> None:
        self._bytes = tokenizer.token_bytes
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._matcher = StopMatcher(stops)
        self._unsearched = min_tokens
        self._strip = tokenizer.strip_first and not prompt_ids
        self._stop: str | None = None
        self._continue(prompt_ids)

    def push(self, token_id: int, final: bool = False) -> tuple[str, str | None]:
        """What may go out now that `token_id` came, and the stop string reached, if any. `final`: nothing follows."""
        if self._stop is not None:
            return "", self._stop
        text = self._characters(self._token(token_id), final)
        if self._unsearched > 0:
            self._unsearched -= 1
            return text, None
        piece, self._stop = self._matcher.feed(text)
        if final and self._stop is None:
            piece += self._matcher.release()
        return piece, self._stop

    def flush(self) -> str:
        """The end: what was held back, a half-told character as U+FFFD. Empty after a stop and when asked again."""
        if self._stop is not None:
            return ""
        piece, self._stop = self._matcher.feed(self._characters(b"", True))
        return piece if self._stop is not None else piece + self._matcher.release()

    def _token(self, token_id: int) -> bytes:
        # Models pad their vocabulary: ids beyond the tokenizer's can be sampled and have no text.
        return self._bytes[token_id] if token_id < len(self._bytes) else b""

    def _characters(self, data: bytes, final: bool) -> str:
        text = self._utf8.decode(data, final)
        if self._strip and text:
            self._strip = False
            return text.removeprefix(" ")
        return text

    def _continue(self, prompt_ids: Sequence[int]) -> None:
        """A prompt that ends within a character leaves its bytes to the output, which completes it."""
        tail = b"".join(self._token(number) for number in prompt_ids[-_PROMPT_TAIL:])
        self._utf8.decode(tail)
        pending, _ = self._utf8.getstate()
        self._utf8.reset()
        self._utf8.decode(pending)


def _failure_table(pattern: str) -> list[int]:
    """For each prefix, the length of its longest proper prefix that is also its suffix."""
    table = [0] * len(pattern)
    length = 0
    for position in range(1, len(pattern)):
        while length and pattern[position] != pattern[length]:
            length = table[length - 1]
        length += pattern[position] == pattern[length]
        table[position] = length
    return table
