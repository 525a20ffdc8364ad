"""Workload: request k depends on (seed, stream, k) alone; prompts start with the run's nonce (B25)."""

import random
from itertools import islice
from statistics import mean

import pytest

from loadgen import library, workload
from loadgen.scenario import Arrivals, Lengths, Mix, Scenario, Stream, Turn
from loadgen.workload import Limits, draw, draw_any, sample, works, write_prompt


def mix(kind: str = "k", weight: float = 1.0, prompt: int = 50, output: int = 20, **fields: object) -> Mix:
    lengths = Lengths("fixed", prompt, prompt), Lengths("fixed", output, output)
    return Mix(kind, "t", weight, *lengths, **fields)  # type: ignore[arg-type]


def stream(*turns: Turn) -> Stream:
    return Stream("s", 0.0, 60.0, Arrivals("poisson", rate=1.0), turns or (Turn(1, (mix(),)),))


def scenario(**changes: object) -> Scenario:
    found = library.load("steady")
    fields = {name: getattr(found, name) for name in found.__slots__} | changes
    return Scenario(**fields)


def test_a_request_depends_on_seed_stream_and_rank_alone() -> None:
    one = stream(Turn(3, (mix("a", 2), mix("b", 1))), Turn(2, (mix("c"),)))
    forwards = [draw(one, k, 5, "n") for k in range(40)]
    assert [draw(one, k, 5, "n") for k in reversed(range(40))] == forwards[::-1]
    assert [draw(one, k, 6, "n") for k in range(40)] != forwards


def test_prompts_of_two_runs_share_no_beginning_and_lengths_stay() -> None:
    for k in range(20):
        ours, theirs = draw(stream(), k, 1, "run-1").prompt, draw(stream(), k, 1, "run-2").prompt
        assert ours.split()[: workload.NONCE_WORDS] != theirs.split()[: workload.NONCE_WORDS]
        assert ours.split()[workload.NONCE_WORDS :] == theirs.split()[workload.NONCE_WORDS :]


def test_prompts_of_one_run_differ_within_the_first_block() -> None:
    beginnings = {" ".join(draw(stream(), k, 1, "run").prompt.split()[:16]) for k in range(200)}
    assert len(beginnings) == 200


def test_the_measurement_does_not_repeat_the_prompts_of_the_load() -> None:
    load = {draw(stream(), k, 1, "run").prompt for k in range(200)}
    assert not load & {draw_any(stream(), k, 1, "run").prompt for k in range(50)}


@pytest.mark.parametrize("tokens", [1, 6, 60, 500])
def test_a_prompt_has_a_word_or_stop_for_each_token(tokens: int) -> None:
    text = draw(stream(Turn(1, (mix(prompt=tokens),))), 0, 1, "run").prompt
    assert len(text.split()) + text.count(".") == pytest.approx(tokens, abs=1)


def test_a_server_with_bytes_for_tokens_gets_as_many_characters() -> None:
    ask = draw(stream(Turn(1, (mix(prompt=200),))), 0, 1, "run", Limits(vocab_size=260))
    assert len(ask.prompt) == 200


def test_lengths_are_clipped_to_what_the_model_takes() -> None:
    ask = draw(stream(Turn(1, (mix(prompt=900, output=400),))), 0, 1, "run", Limits(max_model_len=512))
    assert ask.prompt_tokens + ask.output_tokens < 512 and ask.output_tokens == 256


def test_lengths_follow_their_distribution() -> None:
    rng = random.Random(2)
    uniform = [sample(Lengths("uniform", 10, 30), rng) for _ in range(5000)]
    assert (min(uniform), max(uniform)) == (10, 30) and mean(uniform) == pytest.approx(20, rel=0.02)
    heavy = sorted(sample(Lengths("lognormal", 5, 400, 100.0, 0.8), rng) for _ in range(5000))
    assert heavy[2500] == pytest.approx(100, rel=0.06) and heavy[0] >= 5 and heavy[-1] == 400
    assert {sample(Lengths("fixed", 7, 7), rng) for _ in range(9)} == {7}


def test_mixes_are_drawn_by_weight_and_turns_alternate() -> None:
    one = stream(Turn(1, (mix("a", 3), mix("b", 1))))
    kinds = [draw(one, k, 1, "n").kind for k in range(4000)]
    assert kinds.count("a") == pytest.approx(3000, rel=0.05)
    turns = stream(Turn(3, (mix("short"),)), Turn(2, (mix("long"),)))
    assert [draw(turns, k, 1, "n").kind for k in range(7)] == ["short"] * 3 + ["long"] * 2 + ["short"] * 2


def test_work_counts_prompts_at_their_weight() -> None:
    turns = stream(Turn(2, (mix(prompt=40, output=10),)), Turn(1, (mix(prompt=400, output=100),)))
    assert list(islice(works(turns), 4)) == [20.0, 20.0, 200.0, 20.0]


def test_a_body_forces_its_length_and_asks_for_usage() -> None:
    ask = draw(stream(Turn(1, (mix(output=33, priority=-4, deadline_ms=900),))), 0, 1, "n")
    body = workload.body_of(scenario(), ask, "m")
    assert body["max_tokens"] == 33 and body["ignore_eos"] is True and body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert (body["model"], body["user"], body["kind"], body["priority"], body["deadline_ms"]) == ("m", "t", "k", -4, 900)


def test_fields_that_a_scenario_does_not_name_are_not_sent() -> None:
    body = workload.body_of(scenario(ignore_eos=False), draw(stream(), 0, 1, "n"), "m")
    assert not {"ignore_eos", "priority", "deadline_ms"} & set(body)


def test_chat_puts_the_prompt_into_a_message() -> None:
    chat = scenario(endpoint="chat")
    body = workload.body_of(chat, draw(stream(), 0, 1, "n"), "m")
    assert body["messages"][0]["role"] == "user" and "prompt" not in body
    assert workload.path_of(chat) == "/v1/chat/completions"


def test_a_given_text_goes_out_as_it_stands() -> None:
    assert draw(stream(Turn(1, (mix(text="Hello, how are you?"),))), 0, 1, "run").prompt == "Hello, how are you?"


def test_writing_is_deterministic() -> None:
    assert write_prompt(90, random.Random(4), "x") == write_prompt(90, random.Random(4), "x")
