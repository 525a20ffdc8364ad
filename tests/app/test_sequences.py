"""Prompts to ids, and a Submit a sequence."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from app.api.errors import ApiError
from app.api.openai_parse import CHAT, COMPLETIONS, Model, parse
from app.api.sequences import INLINE_CHARACTERS, MS, read_prompts, submits_of
from scheduler.settings import ModelSettings
from scheduler.text import bundle

TEXT = bundle.load(ModelSettings(runner="null"))
MODEL = Model("null", TEXT.vocab_size, 64)


def read(endpoint: str = COMPLETIONS, kv: int = 1024, **fields: Any) -> Any:
    body = {"model": "null", "max_tokens": 2} | fields
    return read_prompts(parse(endpoint, body, MODEL), TEXT, MODEL, {"kv_cache_tokens": kv}, lambda call, *args: call(*args))


def test_each_prompt_and_choice_is_a_sequence_of_its_own() -> None:
    generation, prompts = read(prompt=["ab", "c"], n=2, seed=5, deadline_ms=10, timeout_ms=20, priority=-1, kind="batch")
    submits = submits_of("req_x", generation, prompts, 1000, "t", "run_1", 600_000)
    assert [submit.id for submit in submits] == ["req_x/0", "req_x/1", "req_x/2", "req_x/3"]
    assert [array("I", submit.prompt).tolist() for submit in submits] == [TEXT.encode("ab")] * 2 + [TEXT.encode("c")] * 2
    assert [submit.params.seed for submit in submits] == [5, 6, 5, 6]
    first = submits[0]
    assert (first.received_at, first.deadline_at, first.timeout_at) == (1000, 1000 + 10 * MS, 1000 + 20 * MS)
    assert (first.tenant, first.kind, first.priority, first.run, first.resubmitted) == ("t", "batch", -1, "run_1", False)


def test_only_what_is_long_goes_to_a_native_thread() -> None:
    long, asked = Model("null", TEXT.vocab_size, 32_768), list[int]()

    def run_native(call: Any, *args: Any) -> Any:
        asked.append(1)
        return call(*args)

    def native(**fields: Any) -> int:
        asked.clear()
        generation = parse(COMPLETIONS, {"model": "null", "max_tokens": 2} | fields, long)
        read_prompts(generation, TEXT, long, {"kv_cache_tokens": 0}, run_native)
        return len(asked)

    assert native(prompt="a" * INLINE_CHARACTERS) == 0 and native(prompt="a" * (INLINE_CHARACTERS + 1)) == 1
    ids = [97] * (INLINE_CHARACTERS + 1)
    assert native(prompt=ids) == 0 and native(prompt=ids, echo=True) == 1


def test_one_sequence_bears_the_posts_own_id_and_the_default_time_out() -> None:
    generation, prompts = read(prompt="a")
    (only,) = submits_of("req_x", generation, prompts, 0, "t", None, 600_000)
    assert only.id == "req_x" and only.timeout_at == 600_000 * MS and only.deadline_at is None and only.params.seed is None


def test_a_seed_at_the_edge_wraps_for_the_next_choice() -> None:
    generation, prompts = read(prompt="a", n=2, seed=2**63 - 1)
    assert [each.params.seed for each in submits_of("x", generation, prompts, 0, "t", None, 1)] == [2**63 - 1, -(2**63)]


def test_a_chat_is_rendered_by_the_models_template() -> None:
    _, prompts = read(CHAT, messages=[{"role": "user", "content": "<|im_start|>hi"}])
    assert prompts.ids == (tuple(TEXT.encode_chat([{"role": "user", "content": "<|im_start|>hi"}])),)


def test_an_echo_is_the_prompts_text_also_for_ids() -> None:
    _, prompts = read(prompt=[TEXT.encode("abc")], echo=True, n=2)
    assert prompts.echoes == ("abc", "abc")


@pytest.mark.parametrize(
    ("fields", "kv", "code"),
    [({"prompt": [1] * 64}, 1024, "context_length_exceeded"), ({"prompt": [1] * 40}, 32, "exceeds_kv_capacity")],
)
def test_a_prompt_that_can_never_be_computed_is_refused(fields: dict[str, Any], kv: int, code: str) -> None:
    with pytest.raises(ApiError) as caught:
        read(kv=kv, **fields)
    assert (caught.value.problem.status, caught.value.param, caught.value.problem.code) == (400, "prompt", code)
