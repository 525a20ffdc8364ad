"""Keys: what a file of them may say, that only digests are compared, all of them, and how guessing is slowed."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from app import keys
from app.api.errors import Problem
from app.keys import MOST_PEERS, SCOPES, WITHIN_S, WRONG_KEYS, Holder, KeyRing, read_keys

HEX = hashlib.sha256(b"secret-b").hexdigest()


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def ring(text: str = "alice secret-a") -> tuple[KeyRing, Clock]:
    clock = Clock()
    return KeyRing(read_keys(text), clock), clock


def refused(admitted: Holder | Problem) -> int:
    assert isinstance(admitted, Problem)
    return admitted.status


def test_a_line_is_a_name_a_key_or_its_digest_and_its_scopes() -> None:
    found = read_keys(f"# ours\nalice secret-a  # hers\n\nbob sha256:{HEX} infer,read\n")
    assert found == {
        hashlib.sha256(b"secret-a").digest(): Holder("alice", frozenset(SCOPES)),
        hashlib.sha256(b"secret-b").digest(): Holder("bob", frozenset({"infer", "read"})),
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment",
        "alice",
        "alice CANARY infer read",
        "alice sha256:00",
        "alice sha256:CANARY",
        "alice CANARY all",
        "alice CANARY infer,",
        "al/ice CANARY",
        "\x1b[2J CANARY",
        "alice CANARY\nbob CANARY",
    ],
)
def test_a_key_file_that_says_nothing_clear_is_refused_without_repeating_a_key(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        read_keys(text)
    assert "CANARY" not in str(caught.value)


def test_every_key_is_compared_whatever_was_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of an answer tells neither whether a key is known nor which one it is."""
    compared: list[tuple[int, int]] = []

    def counting(a: bytes, b: bytes) -> bool:
        compared.append((len(a), len(b)))
        return a == b

    monkeypatch.setattr(keys.hmac, "compare_digest", counting)
    keyring, _ = ring("a k1\nb k2\nc k3")
    for header in ("Bearer k1", "Bearer k3", "Bearer wrong", "", "Bearer " + "k" * 10_000):
        compared.clear()
        keyring.admit("203.0.113.9", header)
        assert compared == [(32, 32)] * 3


def test_after_ten_wrong_keys_an_address_waits_and_others_do_not() -> None:
    keyring, clock = ring()
    for _ in range(WRONG_KEYS):
        assert refused(keyring.admit("203.0.113.9", "Bearer guess")) == 401
    problem: Any = keyring.admit("203.0.113.9", "Bearer guess")
    assert problem.status == 429 and problem.headers["Retry-After"] == "61"
    assert refused(keyring.admit("203.0.113.9", "Bearer secret-a")) == 429  # else the answer would tell a right guess
    assert keyring.admit("203.0.113.10", "Bearer secret-a") == Holder("alice")
    clock.now += WITHIN_S + 1
    assert keyring.admit("203.0.113.9", "Bearer secret-a") == Holder("alice")


def test_who_was_known_before_is_not_locked_out_by_a_neighbour() -> None:
    keyring, _ = ring()
    assert keyring.admit("127.0.0.1", "Bearer secret-a") == Holder("alice")
    for _ in range(WRONG_KEYS + 5):
        keyring.admit("127.0.0.1", "Bearer guess")
    assert keyring.admit("127.0.0.1", "Bearer secret-a") == Holder("alice")
    assert refused(keyring.admit("127.0.0.1", "Bearer guess")) == 429


def test_a_key_that_is_vouched_for_passes_from_anywhere() -> None:
    keyring, _ = ring()
    keyring.vouch("secret-a")
    for _ in range(WRONG_KEYS):
        keyring.admit("203.0.113.9", "Bearer guess")
    assert keyring.admit("203.0.113.9", "Bearer secret-a") == Holder("alice")


def test_no_key_at_all_is_no_guess() -> None:
    keyring, _ = ring()
    assert [refused(keyring.admit("203.0.113.9", "")) for _ in range(WRONG_KEYS * 3)] == [401] * WRONG_KEYS * 3
    assert keyring.admit("203.0.113.9", "Bearer secret-a") == Holder("alice")


def test_guesses_within_bounds_are_forgotten_after_a_minute() -> None:
    keyring, clock = ring()
    for _ in range(WRONG_KEYS * 5):
        clock.now += WITHIN_S / (WRONG_KEYS - 1)
        assert refused(keyring.admit("203.0.113.9", "Bearer guess")) == 401


def test_a_flood_of_addresses_takes_bounded_memory() -> None:
    keyring, _ = ring()
    for number in range(MOST_PEERS + 100):
        keyring.admit(f"peer-{number}", "Bearer guess")
        keyring.admit(f"peer-{number}", "Bearer secret-a")
    assert len(keyring._wrong) == len(keyring._proved) == MOST_PEERS
