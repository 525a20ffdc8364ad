"""ChatTemplate: special ids stand where the template puts them, and nowhere a user wants them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.errors import ModelError
from scheduler.text.bundle import Text
from scheduler.text.byte_tokenizer import EOS_TOKEN_ID, TURN_START_ID, ByteTokenizer
from scheduler.text.chat import CHATML, ChatTemplate

TOKENIZER = ByteTokenizer()
TEMPLATE = ChatTemplate(CHATML, {})
# From public records of the published tokenizer (other programs' golden tests), not from ours.
SYSTEM = [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712, 8182, 2, 198]
KNOWN = {
    "Hello": [19556],
    "Hi there": [26843, 665],
    "What is the capital of France?": [1780, 314, 260, 3575, 282, 4649, 47],
    "Quelle est la capitale de la France ? Réponds en une phrase.": [
        *(65, 2726, 290, 1264, 2618, 47765, 1121, 367, 2618, 4649, 9148, 428, 2756, 96, 19870, 430, 16520, 8715, 30)
    ],
}  # fmt: skip
WORDS = [
    "<|im_end|>",
    "<|im_start|>",
    "<|endoftext|>",
    "<|im_",
    "end|>",
    "system",
    "\n",
    "a ",
    "é",
    "\U000f0000",
    "\U000f00010\U000f0001",
]
CONTENTS = st.lists(st.sampled_from(WORDS), max_size=8).map("".join)


def user(content: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": content}]


@pytest.mark.parametrize(("content", "ids"), KNOWN.items())
def test_known_conversations_have_their_published_ids(smollm: Text, content: str, ids: list[int]) -> None:
    assert smollm.encode_chat(user(content)) == [*SYSTEM, 1, 4093, 198, *ids, 2, 198, 1, 520, 9531, 198]


@given(st.lists(st.tuples(CONTENTS, CONTENTS), min_size=1, max_size=3))
def test_users_cannot_place_special_ids(turns: list[tuple[str, str]]) -> None:
    ids = TEMPLATE.encode([{"role": role, "content": content} for role, content in turns], TOKENIZER)
    specials = [number for number in ids if number > 255]
    assert specials == [TURN_START_ID, EOS_TOKEN_ID] * len(turns) + [TURN_START_ID]


@given(st.lists(st.tuples(CONTENTS, CONTENTS), min_size=1, max_size=3))
def test_every_word_of_a_message_arrives_unchanged(turns: list[tuple[str, str]]) -> None:
    messages = [{"role": role, "content": content} for role, content in turns]
    ids = TEMPLATE.encode(messages, TOKENIZER)
    names = {number: text for text, number in TOKENIZER.special.items()}
    text = b"".join(names[number].encode() if number > 255 else bytes([number]) for number in ids).decode()
    assert text == TEMPLATE.render(messages)


def test_special_text_in_a_message_is_encoded_as_the_letters_it_is(smollm: Text) -> None:
    ids = smollm.encode_chat(user("<|im_start|>"))
    assert ids[24:31] == smollm.encode("<|im_start|>") == [44, 108, 306, 79, 3738, 108, 46]


def test_a_template_that_refuses_says_so() -> None:
    template = ChatTemplate("{{ raise_exception('roles must alternate') }}", {})
    with pytest.raises(ModelError, match="roles must alternate") as caught:
        template.encode(user("a"), TOKENIZER)
    assert caught.value.param == "messages"


@pytest.mark.parametrize(
    "source", ["{{ messages.__class__.__mro__ }}", "{{ messages.append(1) }}", "{{ cycler.__init__.__globals__ }}"]
)
def test_templates_run_in_a_sandbox(source: str) -> None:
    with pytest.raises(ModelError, match="refused"):
        ChatTemplate(source, {}).render(user("a"))


def test_a_template_that_does_not_compile_is_a_model_error() -> None:
    with pytest.raises(ModelError, match="does not compile"):
        ChatTemplate("{% for %}", {})


def test_templates_may_trim_dump_and_loop() -> None:
    source = "{% for m in messages %}{{ bos_token }}{{ m.content | trim }}{{ m | tojson }}{% break %}{% endfor %}"
    template = ChatTemplate(source, {"bos_token": "<s>"})
    assert template.render(user(" é ")) == '<s>é{"role": "user", "content": " é "}'


def test_a_model_without_a_template_cannot_chat() -> None:
    text = Text("base", TOKENIZER, None, vocab_size=259, eos_token_ids=(), max_model_len=8)
    with pytest.raises(ModelError, match=re.escape("base has no chat template")):
        text.encode_chat(user("a"))
