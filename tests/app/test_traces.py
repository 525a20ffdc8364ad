"""Request traces: three formats into asks, and what is wrong named by file and line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli.failures import CommandError
from app.cli.traces import SHARED_BLOCK, read_trace
from scheduler.simulate import Ask

TRACES = Path(__file__).parents[3] / "shared" / "traces"
HEAD = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
MS = 1_000_000


def trace(folder: Path, text: str, name: str = "x.trace") -> list[Ask]:
    path = folder / name
    path.write_bytes(text.encode())
    return list(read_trace(path))


def test_azure_counts_from_its_first_instant_to_the_microsecond(tmp_path: Path) -> None:
    text = f"{HEAD}2023-11-16 23:59:59.9799601,4808,10\r\n2023-11-17 00:00:01.0319600,3180,8\r\n"
    assert trace(tmp_path, text) == [Ask(0, 4808, 10), Ask(1_052_000 * 1000, 3180, 8)]


def test_mooncake_shares_blocks_by_their_ids(tmp_path: Path) -> None:
    row = {"timestamp": 27_482, "input_length": 1000, "output_length": 52, "hash_ids": [46, 47]}
    (ask,) = trace(tmp_path, json.dumps(row))
    assert ask == Ask(27_482 * MS, 1000, 52, shared=((46, SHARED_BLOCK), (47, SHARED_BLOCK)))


def test_ours_names_all_that_a_request_may_have(tmp_path: Path) -> None:
    row = {"arrival_ms": 1.5, "prompt_tokens": 9, "output_tokens": 3, "tenant": "a", "kind": "batch", "priority": -1}
    row |= {"deadline_ms": 250, "timeout_ms": 1000, "expected_output_tokens": 5, "hash_ids": [1]}
    expected = Ask(1_500_000, 9, 3, "a", "batch", -1, 250.0, 1000.0, 5, ((1, SHARED_BLOCK),))
    bare = {"arrival_ms": 2, "prompt_tokens": 1, "output_tokens": 1}
    assert trace(tmp_path, f"{json.dumps(row)}\n\n{json.dumps(bare)}\n") == [expected, Ask(2 * MS, 1, 1)]


GOOD = '{"arrival_ms": 5, "prompt_tokens": 1, "output_tokens": 1}\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{HEAD}2023-11-16 18:17:03.97,1,1\nyesterday,1,1\n", "line 3: TIMESTAMP 'yesterday' is no instant"),
        (f"{HEAD}2023-11-16 18:17:03.97,1\n", "line 2: 2 columns, not 3"),
        (f"{HEAD}2023-11-16 18:17:03.97,many,1\n", "line 2: ContextTokens must be a whole number, not 'many'"),
        (f"{HEAD}2023-11-16 18:17:03.97,5,0\n", "line 2: GeneratedTokens must be from 1"),
        (f"{HEAD}2023-11-16 18:17:03.97,5,1\n2023-11-16 18:17:03.90,5,1\n", "line 3: it arrives 70 ms before"),
        (GOOD + "{nonsense", "line 2: not JSON"),
        (GOOD + "[1]", "line 2: not a JSON object"),
        (GOOD + '{"arrival_ms": 1, "prompt_tokens": 1, "output_tokens": 1}', "line 2: it arrives 4 ms before"),
        (GOOD.replace("1}", "1.5}"), "line 1: output_tokens must be a whole number, not 1.5"),
        (GOOD.replace("5", "-5"), "line 1: arrival_ms must be a number that is not negative"),
        (GOOD.replace("5", "NaN"), "line 1: arrival_ms must be a number"),
        (GOOD.replace("}", ', "tenant": ""}'), "line 1: tenant must be text"),
        (GOOD.replace("}", ', "prio": 1}'), "line 1: unknown field 'prio'; known: arrival_ms"),
        (GOOD.replace("}", ', "hash_ids": 1}'), "line 1: hash_ids must be a list"),
        ('{"timestamp": 0, "input_length": 5, "output_length": true}', "line 1: output_length must be a whole number"),
        ("a,b,c\n", "line 1: neither Azure's heading"),
        ("", "line 1: neither Azure's heading"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(CommandError) as caught:
        trace(tmp_path, text, "bad.trace")
    assert f"{tmp_path}/bad.trace, {says}" in caught.value.message


def test_a_file_that_is_no_text_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CommandError, match="not UTF-8"):
        list(read_trace(tmp_path / "x"))


@pytest.mark.skipif(not TRACES.exists(), reason=f"the traces are not here: {TRACES}")
@pytest.mark.parametrize("name", ["AzureLLMInferenceTrace_code.head3000.csv", "mooncake_conversation_trace.head3000.jsonl"])
def test_public_traces_are_read_whole(name: str) -> None:
    asks = list(read_trace(TRACES / name))
    assert len(asks) == 3000 and asks[0].at == 0
    assert all(sum(length for _, length in ask.shared) < ask.prompt_tokens + SHARED_BLOCK for ask in asks)
