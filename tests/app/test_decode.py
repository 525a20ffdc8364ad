"""The strict decoder: what it lets in, what it refuses, and that it names the field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.decode import MAX_DEPTH, MAX_VALUES, decode_lines, decode_object
from app.api.errors import ApiError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"a": 1', None),
        (b'{"a": 1,}', None),
        (b"{'a': 1}", None),
        (b"[1]", None),
        (b"null", None),
        (b'"a"', None),
        (b"", None),
        (b'{"a": "\xff\xfe"}', None),
        (b'\xef\xbb\xbf{"a": 1}', None),
        (b'{"a": NaN}', None),
        (b'{"a": -Infinity}', None),
        (b'{"a": 1e999}', None),
        (b'{"a": ' + b"9" * 5000 + b"}", None),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", None),
        (b'{"a": 1, "a": 2}', "a"),
        (b'{"b": {"c": ["\\ud800"]}}', "b.c[0]"),
        (b'{"set": {"a": [1, 18446744073709551616]}}', "set.a[1]"),
        (b'{"max_num_seqs": -9223372036854775809}', "max_num_seqs"),
    ],
)
def test_what_is_not_strict_json_is_a_400_that_names_the_field(body: bytes, param: str | None) -> None:
    with pytest.raises(ApiError) as caught:
        decode_object(body)
    assert caught.value.problem.status == 400 and caught.value.param == param


def test_a_pair_of_surrogate_escapes_is_one_character() -> None:
    assert decode_object(b'{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}


def test_brackets_inside_strings_are_no_nesting() -> None:
    text = "[{" * 200 + '"'
    assert decode_object(json.dumps({"a": text}).encode()) == {"a": text}


def test_the_depth_bound_is_exact() -> None:
    def nested(depth: int) -> bytes:
        return b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"

    padding = b" " * 10
    assert decode_object(nested(MAX_DEPTH) + padding)
    with pytest.raises(ApiError):
        decode_object(nested(MAX_DEPTH + 1))


def test_a_string_that_never_ends_costs_no_backtracking() -> None:
    body = b'{"a":[' + b"[]," * 70 + b'"' + b'\\"' * 1_000_000  # a backtracking pattern would need days
    with pytest.raises(ApiError, match="not valid JSON"):
        decode_object(body)


def test_the_number_of_values_is_bounded_and_commas_in_strings_are_none() -> None:
    assert decode_object(b'{"a":"' + b"," * (MAX_VALUES + 1) + b'"}')
    assert len(decode_object(b'{"a":[' + b"1," * (MAX_VALUES - 3) + b"1]}")["a"]) == MAX_VALUES - 2
    for item in (b"1,", b"{},", b'"a",'):
        with pytest.raises(ApiError, match="more than"):
            decode_object(b'{"a":[' + item * MAX_VALUES + b"1]}")


def test_lines_are_objects_and_an_error_names_its_line() -> None:
    assert decode_lines(b'{"a": 1}\n\n{"b": 2}\n') == [{"a": 1}, {"b": 2}]
    with pytest.raises(ApiError, match="line 2"):
        decode_lines(b'{"a": 1}\n[2]\n')


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_whatever_json_writes_is_read_back_equal(value: dict[str, Any]) -> None:
    assert decode_object(json.dumps(value).encode()) == value
    assert decode_object(json.dumps(value, ensure_ascii=False).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_an_object_or_a_400(body: bytes) -> None:
    try:
        assert isinstance(decode_object(body), dict)
    except ApiError as error:
        assert error.problem.status == 400
