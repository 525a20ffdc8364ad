"""ByteTokenizer: bytes in, bytes out."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.settings import ModelSettings
from scheduler.text.bundle import load
from scheduler.text.byte_tokenizer import EOS_TOKEN_ID, VOCAB_SIZE, ByteTokenizer


@given(st.text())
def test_ids_are_the_utf8_bytes_and_decode_gives_the_text_back(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    ids = ByteTokenizer().encode(text)
    assert ids == list(text.encode())
    assert load(ModelSettings(runner="simulated")).decode(ids) == text


def test_a_lone_surrogate_becomes_replacement_characters() -> None:
    assert set(bytes(ByteTokenizer().encode("\ud800")).decode()) == {"�"}


def test_every_id_has_its_bytes() -> None:
    assert len(ByteTokenizer().token_bytes) == VOCAB_SIZE == EOS_TOKEN_ID + 1
