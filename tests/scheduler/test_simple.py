"""The tutorial's SimpleScheduler, without the tutorial's faults."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from scheduler.errors import BatchscopeError, CapacityError
from scheduler.simple import DEMO, Request, RequestStatus, SimpleScheduler, word_pieces


def served(scheduler: SimpleScheduler) -> list[list[str]]:
    """Build and complete until nobody waits."""
    batches = []
    while batch := scheduler.build_batch():
        scheduler.complete_batch(batch, [f"answer to {item.id}" for item in batch])
        batches.append([item.id for item in batch])
    return batches


def test_demo_of_the_tutorial_is_served_whole_and_in_order_of_priority() -> None:
    scheduler = SimpleScheduler(max_batch_size=2, max_tokens=100)
    for request in DEMO:
        scheduler.add_request(*request)
    assert served(scheduler) == [["req5", "req2"], ["req4", "req3"], ["req1"]]


def test_module_prints_the_batches() -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "scheduler.simple"], cwd=root, capture_output=True, text=True, check=True, timeout=60
    )
    assert "[req5, req2] [req4, req3] [req1]" in done.stdout


def test_two_prompts_of_sixty_characters_share_a_batch_when_their_tokens_fit() -> None:
    prompt = "Please explain how a scheduler decides whom to serve first?!"
    assert len(prompt) == 60
    for tokenize in (str.split, word_pieces):
        assert len(tokenize(prompt)) < 50
        scheduler = SimpleScheduler(max_batch_size=4, max_tokens=100, tokenize=tokenize)
        scheduler.add_request("a", prompt, {})
        scheduler.add_request("b", prompt, {})
        assert served(scheduler) == [["a", "b"]]


def test_budget_counts_the_prompt_tokens_of_the_batch() -> None:
    scheduler = SimpleScheduler(max_batch_size=4, max_tokens=10, tokenize=list)
    for id in "abcd":
        scheduler.add_request(id, "xxxx", {"max_tokens": 500})
    assert served(scheduler) == [["a", "b"], ["c", "d"]]


def test_request_that_can_never_fit_is_refused_and_blocks_nobody() -> None:
    scheduler = SimpleScheduler(max_tokens=10, tokenize=list)
    with pytest.raises(CapacityError, match="11 tokens, a batch holds 10"):
        scheduler.add_request("big", "x" * 11, {}, priority=9.0)
    scheduler.add_request("whole", "x" * 10, {})
    assert served(scheduler) == [["whole"]]


def test_equal_priorities_are_served_by_arrival() -> None:
    scheduler = SimpleScheduler(max_batch_size=3)
    for i in range(9):
        scheduler.add_request(f"r{9 - i}", "hello", {})
    assert served(scheduler) == [["r9", "r8", "r7"], ["r6", "r5", "r4"], ["r3", "r2", "r1"]]


def test_no_batch_is_built_while_one_is_open() -> None:
    scheduler = SimpleScheduler(max_batch_size=1)
    scheduler.add_request("a", "hello", {})
    scheduler.add_request("b", "hello", {})
    batch = scheduler.build_batch()
    assert scheduler.build_batch() == [] and scheduler.waiting == 1
    scheduler.complete_batch(batch, ["hi"])
    assert [item.id for item in scheduler.build_batch()] == ["b"]


def test_batch_shows_its_requests_and_their_status() -> None:
    scheduler = SimpleScheduler()
    item = scheduler.add_request("a", "hello there", {"max_tokens": 5}, priority=2.5)
    assert (item.id, item.prompt, item.params, item.priority) == ("a", "hello there", {"max_tokens": 5}, 2.5)
    assert item.status is RequestStatus.WAITING
    batch = scheduler.build_batch()
    assert batch == [item] and item.status is RequestStatus.EXECUTING
    scheduler.complete_batch(batch, ["general Kenobi"])
    assert item.status is RequestStatus.COMPLETED and item.result == "general Kenobi"


def test_failed_result_marks_its_request_alone() -> None:
    scheduler = SimpleScheduler()
    good, bad = scheduler.add_request("good", "hello", {}), scheduler.add_request("bad", "hello", {})
    scheduler.complete_batch(scheduler.build_batch(), ["fine", RuntimeError("out of luck")])
    assert (good.status, bad.status, bad.error) == (RequestStatus.COMPLETED, RequestStatus.FAILED, "out of luck")
    assert scheduler.build_batch() == []


def test_can_add_asks_for_a_place_and_for_tokens_beside_the_current_batch() -> None:
    scheduler = SimpleScheduler(max_batch_size=2, max_tokens=10, tokenize=list)
    assert scheduler.can_add_to_batch(Request("x", "x" * 10, {}, 1.0, 10))
    assert not scheduler.can_add_to_batch(Request("x", "x" * 11, {}, 1.0, 11))
    scheduler.add_request("a", "x" * 6, {})
    scheduler.build_batch()
    assert scheduler.can_add_to_batch(Request("x", "xxxx", {}, 1.0, 4))
    assert not scheduler.can_add_to_batch(Request("x", "xxxxx", {}, 1.0, 5))


def test_wrong_calls_are_named() -> None:
    scheduler = SimpleScheduler()
    scheduler.add_request("a", "hello", {})
    with pytest.raises(BatchscopeError, match="already waiting"):
        scheduler.add_request("a", "hello", {})
    with pytest.raises(BatchscopeError, match="no token"):
        scheduler.add_request("empty", "", {})
    with pytest.raises(BatchscopeError, match="not the open batch"):
        scheduler.complete_batch([], [])
    batch = scheduler.build_batch()
    with pytest.raises(BatchscopeError, match="as many results"):
        scheduler.complete_batch(batch, [])
    scheduler.complete_batch(batch, ["hi"])
    scheduler.add_request("a", "an id is free again", {})


def test_requests_may_come_from_many_threads() -> None:
    scheduler, results = SimpleScheduler(max_batch_size=7), list[list[str]]()

    def send(sender: int) -> None:
        for i in range(100):
            scheduler.add_request(f"{sender}-{i}", "hello", {}, priority=float(i % 3))

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) or scheduler.waiting:
        results += served(scheduler)
    for thread in threads:
        thread.join()
    ids = [id for batch in results for id in batch]
    assert len(ids) == len(set(ids)) == 400


def test_default_tokenizer_counts_pieces_of_words() -> None:
    assert word_pieces("Hello, 42 tokenizers!") == ["Hell", "o", ",", "4", "2", "toke", "nize", "rs", "!"]
    assert word_pieces("  ") == ["  "] and word_pieces("") == []
