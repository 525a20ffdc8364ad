"""Parsing of completions and chats: every refusal names its field and code; what is let through is in range."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.errors import ApiError
from app.api.openai_parse import CHAT, COMPLETIONS, KNOWN, MAX_SEQUENCES, Model, parse, with_length

MODEL = Model("m", 100, 64)


def completion(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "prompt": "hi", "max_tokens": 1} | fields


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1} | fields


def problem(endpoint: str, body: dict[str, Any]) -> tuple[int, str | None, str | None]:
    with pytest.raises(ApiError) as caught:
        parse(endpoint, body, MODEL)
    return caught.value.problem.status, caught.value.problem.param, caught.value.problem.code


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"model": None}, "model", "missing_required_parameter"),
        ({"model": 7}, "model", "invalid_type"),
        ({"prompt": None}, "prompt", "missing_required_parameter"),
        ({"prompt": 7}, "prompt", "invalid_type"),
        ({"prompt": ""}, "prompt", "invalid_value"),
        ({"prompt": []}, "prompt", "empty_array"),
        ({"prompt": [[]]}, "prompt", "empty_array"),
        ({"prompt": ["a", 5]}, "prompt", "invalid_type"),
        ({"prompt": [True]}, "prompt", "invalid_type"),
        ({"prompt": [5, -1]}, "prompt", "invalid_value"),
        ({"prompt": [5, 100]}, "prompt", "invalid_value"),
        ({"prompt": [[1], [2, 2.5]]}, "prompt", "invalid_type"),
        ({"prompt": ["a"] * 200}, "prompt", "array_above_max_length"),
        ({"prompt": ["a"] * 100, "n": 2}, "n", "invalid_value"),
        ({"max_tokens": 0}, "max_tokens", "integer_below_min_value"),
        ({"max_tokens": 1.5}, "max_tokens", "invalid_type"),
        ({"max_tokens": True}, "max_tokens", "invalid_type"),
        ({"max_tokens": 10**12}, "max_tokens", "integer_above_max_value"),
        ({"temperature": 2.5}, "temperature", "decimal_above_max_value"),
        ({"temperature": -0.1}, "temperature", "decimal_below_min_value"),
        ({"temperature": "hot"}, "temperature", "invalid_type"),
        ({"top_p": 1.0001}, "top_p", "decimal_above_max_value"),
        ({"n": 10**6}, "n", "integer_above_max_value"),
        ({"stop": [""]}, "stop", "invalid_value"),
        ({"stop": ["a"] * 1000}, "stop", "array_above_max_length"),
        ({"stop": [1]}, "stop", "invalid_type"),
        ({"stop_token_ids": [100]}, "stop_token_ids", "invalid_value"),
        ({"stream": "yes"}, "stream", "invalid_type"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "invalid_value"),
        ({"min_tokens": 2}, "min_tokens", "invalid_value"),
        ({"presence_penalty": 3}, "presence_penalty", "decimal_above_max_value"),
        ({"presence_penalty": 0.5}, "presence_penalty", "unsupported_parameter"),
        ({"logit_bias": {"100": 1}}, "logit_bias", "invalid_value"),
        ({"logit_bias": {"5": 1}}, "logit_bias", "unsupported_parameter"),
        ({"logprobs": 10**5}, "logprobs", "integer_above_max_value"),
        ({"logprobs": 0}, "logprobs", "unsupported_parameter"),
        ({"logprobs": 2}, "logprobs", "unsupported_parameter"),
        ({"best_of": 2}, "best_of", "unsupported_parameter"),
        ({"suffix": "x"}, "suffix", "unsupported_parameter"),
        ({"prompt_embeds": "x"}, "prompt_embeds", "unsupported_parameter"),
        ({"priority": 2**40}, "priority", "integer_above_max_value"),
        ({"tenant": "t" * 200}, "tenant", "string_above_max_length"),
        ({"timeout_ms": 0}, "timeout_ms", "decimal_below_min_value"),
    ],
)
def test_a_bad_completion_is_refused_by_name(fields: dict[str, Any], param: str, code: str) -> None:
    assert problem(COMPLETIONS, completion(**fields)) == (400, param, code)


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"messages": None}, "messages", "missing_required_parameter"),
        ({"messages": "hi"}, "messages", "invalid_type"),
        ({"messages": []}, "messages", "empty_array"),
        ({"messages": ["hi"]}, "messages[0]", "invalid_type"),
        ({"messages": [{"content": "hi"}]}, "messages[0].role", "missing_required_parameter"),
        ({"messages": [{"role": "root", "content": "hi"}]}, "messages[0].role", "invalid_value"),
        ({"messages": [{"role": "user"}]}, "messages[0].content", "missing_required_parameter"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content", "invalid_type"),
        ({"messages": [{"role": "user", "content": []}]}, "messages[0].content", "empty_array"),
        ({"messages": [{"role": "user", "content": [{"type": "smell"}]}]}, "messages[0].content[0].type", "invalid_value"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
            "messages[0].content[0].text",
            "missing_required_parameter",
        ),
        ({"max_completion_tokens": 2}, "max_completion_tokens", "invalid_value"),
        ({"tools": [{"type": "function"}]}, "tools", "unsupported_parameter"),
        ({"response_format": {"type": "json_object"}}, "response_format", "unsupported_parameter"),
        ({"top_logprobs": 3}, "top_logprobs", "invalid_value"),
        ({"logprobs": True}, "logprobs", "unsupported_parameter"),
        ({"chat_template": "{{ x }}"}, "chat_template", "unsupported_parameter"),
    ],
)
def test_a_bad_chat_is_refused_by_name(fields: dict[str, Any], param: str, code: str) -> None:
    assert problem(CHAT, chat(**fields)) == (400, param, code)


def test_another_model_is_a_404() -> None:
    assert problem(CHAT, chat(model="other")) == (404, "model", "model_not_found")


def test_neutral_values_of_what_is_not_built_pass() -> None:
    neutral = {"presence_penalty": 0, "logit_bias": {}, "logprobs": False, "tools": [], "tool_choice": None}
    assert parse(CHAT, chat(**neutral, response_format={"type": "text"}), MODEL).ignored_fields == ()


def test_unknown_fields_pass_and_are_listed() -> None:
    assert parse(CHAT, chat(zebra=1, apple=2), MODEL).ignored_fields == ("apple", "zebra")


def test_text_parts_are_joined_and_developer_is_system() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    found = parse(CHAT, chat(messages=[{"role": "developer", "content": parts}]), MODEL)
    assert found.messages == (("system", "a\nb"),)


def test_lists_of_prompts_and_n_become_sequences() -> None:
    assert parse(COMPLETIONS, completion(prompt=["a", "b"], n=3), MODEL).sequences == 6
    assert parse(COMPLETIONS, completion(prompt=[1, 2, 3]), MODEL).prompts == ((1, 2, 3),)
    assert parse(COMPLETIONS, completion(prompt=[[1], [2]]), MODEL).prompts == ((1,), (2,))


@pytest.mark.parametrize("fields", [{"temperature": 1e-320}, {"temperature": 0}, {"top_p": 0}])
def test_a_temperature_that_would_overflow_is_greedy(fields: dict[str, Any]) -> None:
    assert parse(COMPLETIONS, completion(**fields), MODEL).params.temperature == 0.0


def test_the_tenant_falls_back_to_the_user() -> None:
    assert parse(CHAT, chat(user="u"), MODEL).tenant == "u"
    assert parse(CHAT, chat(user="u", tenant="t"), MODEL).tenant == "t"


def test_max_tokens_is_settled_by_the_prompt() -> None:
    free = parse(COMPLETIONS, {"model": "m", "prompt": "hi"}, MODEL)
    assert with_length(free, 10, MODEL).params.max_tokens == 16
    assert with_length(free, 60, MODEL).params.max_tokens == 4
    open_chat = parse(CHAT, {"model": "m", "messages": chat()["messages"]}, MODEL)
    assert with_length(open_chat, 10, MODEL).params.max_tokens == 54


@pytest.mark.parametrize(("tokens", "wanted", "param"), [(64, 1, "prompt"), (63, 2, "max_tokens")])
def test_what_does_not_fit_the_context_is_refused(tokens: int, wanted: int, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        with_length(parse(COMPLETIONS, completion(max_tokens=wanted), MODEL), tokens, MODEL)
    assert (caught.value.param, caught.value.problem.code) == (param, "context_length_exceeded")


ANY = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers(), max_size=3)


@given(st.sampled_from([COMPLETIONS, CHAT]), st.data())
def test_any_values_give_a_generation_in_range_or_a_refusal_by_name(endpoint: str, data: st.DataObject) -> None:
    names = data.draw(st.sets(st.sampled_from(sorted(KNOWN[endpoint])), max_size=6))
    body = (chat() if endpoint == CHAT else completion()) | {name: data.draw(ANY) for name in sorted(names)}
    try:
        found = parse(endpoint, body, MODEL)
    except ApiError as error:
        assert error.problem.status in (400, 404) and error.param is not None and error.problem.code
        return
    params = found.params
    assert 0 <= params.temperature <= 2 and 0 < params.top_p <= 1 and params.top_k >= 0
    assert 1 <= found.sequences <= MAX_SEQUENCES
    assert all(0 <= token < MODEL.vocab_size for token in params.stop_token_ids)
