"""FileTokenizer: the ids of the published tokenizer, and bytes for each of them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

from scheduler.errors import ModelError
from scheduler.settings import ModelSettings
from scheduler.text.bundle import Text, model_directory
from scheduler.text.file_tokenizer import FileTokenizer

# From public records of the published tokenizer, not from ours.
KNOWN = {
    "": [],
    "Hello world": [19556, 905],
    "<|im_start|>": [44, 108, 306, 79, 3738, 108, 46],
    "The quick brown fox jumps over the lazy dog": [504, 2365, 6354, 16438, 27003, 690, 260, 23790, 2767],
    "  leading spaces": [216, 2899, 5600],
    "Write a haiku about the ocean.\n": [19161, 253, 421, 30614, 563, 260, 5065, 30, 198],
}
# The published vocabulary has no token for these bytes: some controls, planes 4 to 11, and what UTF-8 never uses.
UNTRAINED = bytes([0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xC0, 0xC1, 0xF1, 0xF2, *range(0xF5, 0x100)])


@pytest.mark.parametrize(("text", "ids"), KNOWN.items())
def test_known_texts_have_their_published_ids(smollm: Text, text: str, ids: list[int]) -> None:
    assert smollm.encode(text) == ids


def test_digits_stand_alone(smollm: Text) -> None:
    assert smollm.encode("2024") == [smollm.encode(digit)[0] for digit in "2024"]
    assert len(smollm.encode("2024")) == 4


@given(text=st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_text_survives_the_round_trip_and_no_special_id_appears(smollm: Text, text: str) -> None:
    text = text.encode("utf-8", "replace").translate(None, UNTRAINED).decode("utf-8", "ignore")
    ids = smollm.encode(text)
    assert smollm.decode(ids) == text
    assert min(ids, default=17) >= 17


@given(ids=st.lists(st.integers(0, 49151), max_size=30), cuts=st.lists(st.sampled_from(["a", "the", "\n", "é"]), max_size=2))
@settings(max_examples=200, deadline=None)
def test_random_ids_stream_as_the_library_decodes_them(
    smollm: Text, smollm_settings: ModelSettings, ids: list[int], cuts: list[str]
) -> None:
    backend = _backend(str(model_directory(smollm_settings) / "tokenizer.json"))
    whole = backend.decode(ids, skip_special_tokens=True)
    assert smollm.decode(ids) == whole
    stream, out = smollm.stream(tuple(cuts), ()), ""
    for number in ids:
        piece, reached = stream.push(number)
        out += piece
        if reached is not None:
            break
    out += stream.flush()
    ends = [whole.index(stop) for stop in cuts if stop in whole]
    assert out == (whole[: min(ends)] if ends else whole)


@cache
def _backend(path: str) -> Tokenizer:
    return Tokenizer.from_file(path)


def test_name_sizes_and_ends_come_from_the_files(smollm: Text) -> None:
    assert (smollm.name, smollm.vocab_size, smollm.eos_token_ids, smollm.max_model_len) == (
        "SmolLM2-135M-Instruct", 49152, (2,), 8192,
    )  # fmt: skip


def sentencepiece_like(path: Path) -> FileTokenizer:
    """Llama 2's kind: a space is `▁`, unknown characters are bytes, a begin-of-text id opens a bare prompt."""
    byte_tokens = [f"<0x{value:02X}>" for value in range(256)]
    tokens = ["<unk>", "<s>", "</s>", *byte_tokens, "▁", "a", "b", "▁a"]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    model = models.BPE(vocab=vocabulary, merges=[("▁", "a")], unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    backend = Tokenizer(model)
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in tokens[:3]])
    backend.save(str(path))
    return FileTokenizer(path)


def test_sentencepiece_like_files_work_too(tmp_path: Path) -> None:
    text = Text(
        "old", sentencepiece_like(tmp_path / "tokenizer.json"), None, vocab_size=263, eos_token_ids=(2,), max_model_len=8
    )
    ids = text.encode("a b€")
    assert ids[0] == 1
    assert text.decode(ids) == "a b€"
    stream = text.stream((), ids)
    assert "".join(stream.push(number)[0] for number in text.encode("a")[1:]) == " a"


def test_an_unknown_decoder_is_refused(tmp_path: Path) -> None:
    backend = Tokenizer(models.BPE(vocab={"a": 0}, merges=[]))
    backend.decoder = decoders.WordPiece()
    backend.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ModelError, match="unknown decoder"):
        FileTokenizer(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("content", ["", "{}", json.dumps({"model": {"type": "Nonsense"}})])
def test_a_broken_file_is_a_model_error_that_names_it(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        FileTokenizer(tmp_path / "tokenizer.json")
