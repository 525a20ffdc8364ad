"""TextStream: nothing that may still be a stop or half a character goes out; the pieces are the whole."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.text.byte_tokenizer import END_OF_TEXT_ID, EOS_TOKEN_ID, ByteTokenizer
from scheduler.text.stream import StopMatcher, TextStream

TOKENIZER = ByteTokenizer()
FEW_LETTERS = st.text("ab", max_size=30)
STOPS = st.lists(st.text("ab", min_size=1, max_size=5), max_size=4).map(tuple)


def stream(*stops: str, prompt: bytes = b"", min_tokens: int = 0) -> TextStream:
    return TextStream(TOKENIZER, stops, list(prompt), min_tokens)


def run(text_stream: TextStream, data: bytes) -> tuple[list[str], str | None]:
    """Pieces for each byte, plus the flush; the stop reached."""
    pieces, reached = [], None
    for value in data:
        piece, reached = text_stream.push(value)
        pieces.append(piece)
        if reached is not None:
            break
    return [*pieces, text_stream.flush()], reached


def cut(text: str, stops: tuple[str, ...]) -> tuple[str, str | None]:
    """The law, said slowly: the stop that is complete first wins, the longest of those that end together."""
    for end in range(len(text) + 1):
        ended = [stop for stop in stops if stop and text[:end].endswith(stop)]
        if ended:
            longest = max(ended, key=len)
            return text[: end - len(longest)], longest
    return text, None


@given(FEW_LETTERS, STOPS)
@example("abab", ("abb", "ab"))
@example("aab", ("aab", "ab", "b"))
def test_pieces_are_the_text_cut_at_its_first_stop(text: str, stops: tuple[str, ...]) -> None:
    pieces, reached = run(stream(*stops), text.encode())
    assert ("".join(pieces), reached) == cut(text, stops)


@given(FEW_LETTERS, STOPS, st.lists(st.integers(1, 6)))
def test_the_result_does_not_depend_on_where_chunks_are_cut(text: str, stops: tuple[str, ...], sizes: list[int]) -> None:
    matcher, out, reached, rest = StopMatcher(stops), "", None, text
    for size in [*sizes, len(text)]:
        chunk, rest = rest[:size], rest[size:]
        piece, reached = matcher.feed(chunk)
        out += piece
        if reached is not None:
            break
    assert (out if reached is not None else out + matcher.release(), reached) == cut(text, stops)


@given(FEW_LETTERS, STOPS)
def test_what_is_out_is_never_taken_back_and_only_suspicion_is_held(text: str, stops: tuple[str, ...]) -> None:
    matcher, out = StopMatcher(stops), ""
    for position, character in enumerate(text):
        piece, reached = matcher.feed(character)
        out += piece
        assert text.startswith(out)
        if reached is not None:
            return
        seen = text[: position + 1]
        suspicious = [seen[i:] for i in range(len(seen)) if any(stop.startswith(seen[i:]) for stop in stops)]
        assert out + (suspicious[0] if suspicious else "") == seen


@given(st.binary(max_size=40))
@example("aé€😀".encode())
@example(b"\xf0\x9f")
@example(b"\xe2\x82A")
def test_any_bytes_come_out_as_decoded_at_once(data: bytes) -> None:
    pieces, _ = run(stream(), data)
    assert "".join(pieces) == data.decode("utf-8", "replace")


@given(st.text(max_size=20, alphabet=st.characters(codec="utf-8")))
def test_whole_characters_only_and_each_as_soon_as_it_is_whole(text: str) -> None:
    text_stream, out = stream(), ""
    for end, value in enumerate(text.encode(), 1):
        piece, _ = text_stream.push(value)
        out += piece
        assert out == text.encode()[:end].decode("utf-8", "ignore")
    assert text_stream.flush() == ""


@given(st.text(min_size=1, max_size=8), st.integers(0, 3), st.text(max_size=8))
def test_a_prompt_cut_within_a_character_leaves_it_to_the_output(prompt: str, back: int, output: str) -> None:
    prompt, output = (text.encode("utf-8", "replace").decode() for text in (prompt, output))
    whole = (prompt + output).encode()
    place = max(0, len(prompt.encode()) - back)
    pieces, _ = run(stream(prompt=whole[:place]), whole[place:])
    assert whole[:place].decode("utf-8", "ignore") + "".join(pieces) == whole.decode()


def test_a_half_told_end_is_a_replacement_character_only_at_the_end() -> None:
    text_stream = stream()
    assert text_stream.push(0xE2) == ("", None)
    assert text_stream.push(0x82) == ("", None)
    assert text_stream.flush() == "�"
    assert text_stream.flush() == ""


def test_final_push_returns_what_was_held_back() -> None:
    text_stream = stream("END")
    assert text_stream.push(ord("E")) == ("", None)
    assert text_stream.push(ord("N"), final=True) == ("EN", None)
    assert text_stream.flush() == ""


def test_after_a_stop_nothing_more_comes() -> None:
    text_stream = stream("END")
    pieces = [text_stream.push(value) for value in b"xEND"]
    assert pieces == [("x", None), ("", None), ("", None), ("", "END")]
    assert text_stream.push(ord("y")) == ("", "END")
    assert text_stream.flush() == ""


def test_the_first_min_tokens_are_not_searched() -> None:
    text_stream = stream("ab", min_tokens=3)
    pieces, reached = run(text_stream, b"abaab")
    assert ("".join(pieces), reached) == ("aba", "ab")


def test_special_and_unknown_ids_have_no_text() -> None:
    text_stream = stream()
    assert text_stream.push(EOS_TOKEN_ID) == ("", None)
    assert text_stream.push(10_000) == ("", None)
    assert text_stream.push(ord("a")) == ("a", None)


@pytest.mark.parametrize("stops", [(), ("",)])
def test_empty_stops_stop_nothing(stops: tuple[str, ...]) -> None:
    pieces, reached = run(stream(*stops), b"text")
    assert ("".join(pieces), reached) == ("text", None)


def test_special_tokens_between_the_bytes_of_a_prompt_do_not_hide_its_end() -> None:
    text_stream = TextStream(TOKENIZER, (), [0xE2, END_OF_TEXT_ID, 0x82], 0)
    assert text_stream.push(0xAC) == ("€", None)
