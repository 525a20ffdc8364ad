"""KV blocks: counted, shared by the hash of the whole prefix, and given back."""

from __future__ import annotations

import random
from array import array

import pytest

from scheduler.core.blocks import BlockPool, chain_keys


def keys_of(tokens: list[int], size: int = 4) -> list[bytes]:
    keys: list[bytes] = []
    chain_keys(array("I", tokens), size, keys)
    return keys


def filled(pool: BlockPool, tokens: list[int]) -> list[int]:
    """Blocks that hold the full blocks of `tokens`, published."""
    blocks = []
    for key in keys_of(tokens, pool.size):
        block = pool.take()
        assert block is not None
        pool.publish(block, key)
        blocks.append(block)
    return blocks


def test_key_covers_everything_from_the_first_token_on() -> None:
    same, other = keys_of([1, 2, 3, 4, 5, 6, 7, 8]), keys_of([0, 2, 3, 4, 5, 6, 7, 8])
    assert len(same) == 2 and same[1] != other[1]
    assert keys_of([1, 2, 3, 4, 5, 6, 7]) == same[:1], "only full blocks have a key"


def test_keys_grow_as_tokens_come_and_are_never_computed_anew() -> None:
    tokens = array("I", range(30))
    grown: list[bytes] = []
    for length in range(30):
        chain_keys(tokens[:length], 4, grown)
    assert grown == keys_of(list(range(30)))


def test_longest_published_prefix_is_found() -> None:
    pool = BlockPool(8, 4)
    blocks = filled(pool, list(range(12)))
    assert pool.match(keys_of(list(range(12))), 9) == blocks
    assert pool.match(keys_of(list(range(12))), 2) == blocks[:2]
    assert pool.match(keys_of([0, 1, 2, 3, 9, 9, 9, 9]), 9) == blocks[:1]


def test_released_block_can_be_hit_until_it_is_taken_and_the_oldest_is_taken_first() -> None:
    pool = BlockPool(4, 4)
    first, second = filled(pool, [1] * 8), filled(pool, [2] * 8)
    pool.release(first)
    pool.release(second)
    assert pool.free == 4
    assert pool.take() == first[1], "tail first: heads of prefixes live longest"
    assert pool.match(keys_of([1] * 8), 9) == first[:1]
    pool.share(pool.match(keys_of([2] * 8), 9))
    assert pool.take() == first[0], "shared blocks are not free"
    assert pool.take() is None
    pool.check([[first[1]], second, [first[0]]])


def test_room_counts_hits_that_nobody_holds_and_tables_that_come_back() -> None:
    pool = BlockPool(6, 4)
    mine, theirs = filled(pool, [1] * 8), filled(pool, [2] * 8)
    assert pool.free == 2
    assert pool.room(mine) == 2, "sharing a held block costs nothing"
    assert pool.room([], [theirs]) == 4
    assert pool.room(theirs, [theirs]) == 2, "what comes back and is hit is held again"
    pool.share(mine)
    assert pool.room([], [mine]) == 2, "another table still holds it"
    pool.release(mine)
    pool.release(mine)
    assert pool.room(mine) == 2


def test_equal_block_published_before_stays_the_one() -> None:
    pool = BlockPool(4, 4)
    first, second = filled(pool, [1] * 4), filled(pool, [1] * 4)
    assert pool.match(keys_of([1] * 4), 1) == first
    pool.release(second)
    pool.check([first])


def test_without_caching_nothing_is_published() -> None:
    pool = BlockPool(4, 4, caching=False)
    filled(pool, [1] * 4)
    assert pool.match(keys_of([1] * 4), 1) == []


def test_check_sees_a_lost_reference() -> None:
    pool = BlockPool(4, 4)
    block = pool.take()
    assert block is not None
    with pytest.raises(AssertionError, match="ref counts"):
        pool.check([])


def test_books_balance_through_random_use() -> None:
    rng = random.Random(3)
    pool, tables = BlockPool(20, 2), list[list[int]]()
    for _ in range(2000):
        if tables and rng.random() < 0.5:
            pool.release(tables.pop(rng.randrange(len(tables))))
        else:
            keys = keys_of([rng.randrange(2) for _ in range(rng.randrange(10))], 2)
            hits = pool.match(keys, 9)
            if pool.room(hits) >= len(keys) - len(hits):
                pool.share(hits)
                for key in keys[len(hits) :]:
                    block = pool.take()
                    assert block is not None
                    pool.publish(block, key)
                    hits.append(block)
                tables.append(hits)
        pool.check(tables)
