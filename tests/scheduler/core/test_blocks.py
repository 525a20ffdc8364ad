"""KV blocks: counted, shared by equal prefixes, and given back."""

from __future__ import annotations

import random
from array import array
from typing import Any

import pytest
from builders import Bench, make_request, make_scheduler

from scheduler.core.blocks import ROOT, BlockPool, Key, Place, content, contents
from scheduler.core.events import RequestPreempted


def filled(pool: BlockPool, tokens: list[int], root: Place = ROOT) -> list[int]:
    """Blocks that hold the full blocks of `tokens`, published."""
    ids, place, blocks = array("I", tokens), root, []
    for index in range(len(ids) // pool.size):
        (block,) = pool.take(1)
        place = pool.publish([block], place, [content(ids, pool.size, index)])
        blocks.append(block)
    return blocks


def found(pool: BlockPool, tokens: list[int], most: int = 9, root: Place = ROOT) -> list[int]:
    return pool.match(array("I", tokens), min(most, len(tokens) // pool.size), root)


class Heard:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.cached: dict[Place, Key] = {}
        self.told: list[str] = []

    def block_cached(self, key: Key, place: Place) -> None:
        self.cached[place] = key
        self.told.append("cached")

    def block_evicted(self, key: Key, place: Place) -> None:
        assert self.cached.pop(place) == key, "evicted, and never cached"
        self.told.append("evicted")


def test_hit_needs_equal_tokens_from_the_first_one_on() -> None:
    pool = BlockPool(8, 4)
    blocks = filled(pool, [1, 2, 3, 4, 5, 6, 7, 8])
    assert found(pool, [1, 2, 3, 4, 5, 6, 7, 8]) == blocks
    assert found(pool, [0, 2, 3, 4, 5, 6, 7, 8]) == [], "an equal second block after another first one"
    assert found(pool, [1, 2, 3, 4, 5, 6, 7]) == blocks[:1], "only full blocks are shared"


def test_longest_published_prefix_is_found() -> None:
    pool = BlockPool(8, 4)
    blocks = filled(pool, list(range(12)))
    assert found(pool, list(range(12))) == blocks
    assert found(pool, list(range(12)), 2) == blocks[:2]
    assert found(pool, [0, 1, 2, 3, 9, 9, 9, 9]) == blocks[:1]


def test_equal_hash_is_not_trusted_without_equal_tokens() -> None:
    class Colliding(bytes):
        """Tokens whose hash is that of all others; only their comparison can tell them apart."""

        def __hash__(self) -> int:
            return 7

    class Tokens(array):  # type: ignore[type-arg]
        def __getitem__(self, at: Any) -> Any:
            return Tokens("I", super().__getitem__(at)) if isinstance(at, slice) else super().__getitem__(at)

        def tobytes(self) -> bytes:
            return Colliding(super().tobytes())

    pool, mine, other = BlockPool(4, 4), Tokens("I", [1, 2, 3, 4]), Tokens("I", [1, 2, 3, 5])
    (block,) = pool.take(1)
    pool.publish([block], ROOT, [content(mine, 4, 0)])
    assert hash(content(mine, 4, 0)) == hash(content(other, 4, 0)), "the collision is planted"
    assert pool.match(mine, 1) == [block]
    assert pool.match(other, 1) == []


def test_content_published_again_after_its_eviction_takes_over_nothing_of_the_first() -> None:
    pool = BlockPool(2, 2)
    first, second = filled(pool, [1, 1, 2, 2])
    pool.release([first])  # a head that goes while its tail is held: the tail can be hit through no other head
    assert pool.take(1) == [first] and found(pool, [1, 1, 2, 2]) == []
    pool.release([first])
    assert filled(pool, [1, 1]) == [first]
    assert found(pool, [1, 1, 2, 2]) == [first]
    pool.check([[first], [second]])


def test_salted_prefixes_are_hit_by_their_own_tenant_only() -> None:
    pool = BlockPool(8, 4, salted=True)
    hers = filled(pool, list(range(8)), pool.root("alice"))
    assert found(pool, list(range(8)), root=pool.root("bob")) == []
    assert found(pool, list(range(8)), root=pool.root("alice")) == hers
    plain = BlockPool(8, 4)
    assert plain.root("alice") == plain.root("bob")


@pytest.mark.parametrize(("salted", "cached"), [(False, 8), (True, 0)])
def test_salt_decides_whether_a_request_hits_what_another_tenant_asked(salted: bool, cached: int) -> None:
    bench = Bench(make_scheduler())
    bench.scheduler.pool.salted = salted
    for tenant in ("alice", "bob", "alice"):
        bench.add(make_request(tenant, prompt=range(9), tenant=tenant))
        bench.run_to_idle()
    hits = [event.cached_tokens for event in bench.events if type(event).__name__ == "RequestFinished"]
    assert hits == [0, cached, 8]


def test_released_block_can_be_hit_until_it_is_taken_and_the_oldest_is_taken_first() -> None:
    pool = BlockPool(4, 4)
    first, second = filled(pool, [1] * 8), filled(pool, [2] * 8)
    pool.release(first)
    pool.release(second)
    assert pool.free == 4
    assert pool.take(1) == [first[1]], "tail first: heads of prefixes live longest"
    assert found(pool, [1] * 8) == first[:1]
    pool.share(found(pool, [2] * 8))
    assert pool.take(1) == [first[0]], "shared blocks are not free"
    assert not pool.free
    pool.check([[first[1]], second, [first[0]]])


def test_prefix_that_was_used_again_outlives_those_that_were_not() -> None:
    pool = BlockPool(6, 4)
    tables = [filled(pool, [n] * 8) for n in range(3)]
    for table in tables:
        pool.release(table)
    pool.share(found(pool, [0] * 8))
    pool.release(tables[0])
    taken = [block for _ in range(4) for block in pool.take(1)]
    assert taken == [*reversed(tables[1]), *reversed(tables[2])], "least recently used first"
    assert found(pool, [0] * 8) == tables[0]


def test_plain_blocks_are_taken_before_any_cached_one() -> None:
    pool = BlockPool(4, 4)
    table = filled(pool, [1] * 8)
    pool.release(table)
    assert not {*pool.take(1), *pool.take(1)} & set(table)
    assert found(pool, [1] * 8) == table


def test_plain_blocks_of_a_table_lie_one_after_another() -> None:
    assert BlockPool(4, 4).take(3) == [0, 1, 2]
    pool = BlockPool(4, 4)
    pool.release(filled(pool, [1] * 4))
    assert pool.take(4) == [1, 2, 3, 0], "the cached one is last"


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
    assert found(pool, [1] * 4, 1) == first
    pool.release(second)
    pool.check([first])


@pytest.mark.parametrize("watched", [False, True])
def test_block_published_alone_leaves_the_books_as_one_published_among_others(watched: bool) -> None:
    rng, pools, heard = random.Random(8), [BlockPool(12, 2), BlockPool(12, 2)], [Heard(), Heard()]
    among, alone = pools
    for pool, hears in zip(pools, heard, strict=True):
        pool.observe(hears if watched else None)
    place: Place = ROOT
    for _ in range(400):
        tokens = array("I", [rng.randrange(2), rng.randrange(3)]).tobytes()
        place = ROOT if rng.random() < 0.3 else place
        (block,), (same,) = among.take(1), alone.take(1)
        assert same == block, "another one was evicted"
        then = among.publish([block], place, [tokens])
        assert alone.publish_one(block, place, tokens) == then, "the prefix ends elsewhere"
        assert alone.publish_one(block, place, tokens) == then, "published again, it ends where it did"
        for pool in pools:
            pool.release([block])
            pool.check([])
        assert (alone._index, alone._place_of) == (among._index, among._place_of)
        place = then
    assert heard[0].told == heard[1].told and bool(heard[0].told) is watched


def test_block_published_alone_with_other_content_than_before_is_refused() -> None:
    pool = BlockPool(4, 2)
    (block,) = filled(pool, [1, 2])
    with pytest.raises(AssertionError, match="with other content"):
        pool.publish_one(block, ROOT, array("I", [3, 4]).tobytes())


def test_check_sees_a_block_that_was_given_back_twice() -> None:
    for published in (False, True):
        pool = BlockPool(4, 2)
        blocks = filled(pool, [1, 2]) if published else pool.take(1)
        pool.release(blocks)
        pool.release(blocks)
        with pytest.raises(AssertionError):
            pool.check([])


def test_without_caching_nothing_is_published() -> None:
    pool = BlockPool(4, 4, caching=False)
    filled(pool, [1] * 4)
    assert found(pool, [1] * 4, 1) == []
    assert pool.publish_one(0, ROOT, array("I", [1] * 4).tobytes()) == ROOT
    assert found(pool, [1] * 4, 1) == []


def test_observer_hears_of_each_block_that_can_be_hit_and_of_its_end() -> None:
    pool, heard = BlockPool(2, 4), Heard()
    pool.observe(heard)
    pool.release(filled(pool, [1] * 8))
    filled(pool, [2] * 4)
    assert heard.told == ["cached", "cached", "evicted", "cached"]
    pool.observe(None)
    filled(pool, [3] * 4)
    assert len(heard.told) == 4


def test_check_sees_a_lost_reference() -> None:
    pool = BlockPool(4, 4)
    (block,) = pool.take(1)
    with pytest.raises(AssertionError, match="ref counts"):
        pool.check([])


def test_books_balance_through_random_use_and_hits_are_those_of_the_tokens_themselves() -> None:
    rng, heard = random.Random(3), Heard()
    pool, tables = BlockPool(20, 2), list[list[int]]()
    pool.observe(heard)
    holds: dict[int, tuple[int, ...]] = {}  # block → the whole prefix that it ends, when it was published
    for _ in range(3000):
        if tables and rng.random() < 0.5:
            pool.release(tables.pop(rng.randrange(len(tables))))
        else:
            tokens = array("I", [rng.randrange(2) for _ in range(rng.randrange(10))])
            full = len(tokens) // 2
            hits = pool.match(tokens, full)
            assert [holds[block] for block in hits] == [tuple(tokens[: 2 * i + 2]) for i in range(len(hits))]
            if pool.room(hits) >= full - len(hits):
                place = pool.place_of(hits)
                pool.share(hits)
                for index in range(len(hits), full):
                    (block,) = pool.take(1)
                    place = pool.publish([block], place, [content(tokens, 2, index)])
                    holds[block] = tuple(tokens[: 2 * index + 2])
                    hits.append(block)
                tables.append(hits)
        pool.check(tables)
        assert len(heard.cached) == sum(key is not None for key in pool._key_of)


def test_what_a_block_is_published_as_is_what_its_request_wrote_there() -> None:
    rng, heard = random.Random(5), Heard()
    bench = Bench(make_scheduler(blocks=24, max_num_seqs=5, max_num_batched_tokens=16))
    pool = bench.scheduler.pool
    pool.observe(heard)
    keys: dict[Place, Key] = {}
    published = 0
    for _ in range(400):
        if rng.random() < 0.3:
            shared = [7] * rng.choice([0, 4, 13])
            bench.add(make_request(prompt=[*shared, *[rng.randrange(2) for _ in range(9)]], max_tokens=rng.randrange(1, 30)))
        bench.step()
        keys |= heard.cached
        for request in bench.scheduler.requests.values():
            for index, block in enumerate(request.blocks):
                key = pool._key_of[block]
                if key is not None:
                    published += 1
                    assert prefix(keys, key) == request.tokens[: (index + 1) * 4].tobytes(), f"block {index} of {request}"
    assert published > 1000 and bench.of(RequestPreempted)


def prefix(keys: dict[Place, Key], key: Key) -> bytes:
    """All tokens from the first one to the end of the block that `key` names."""
    place, tokens = key
    return tokens if place == ROOT else prefix(keys, keys[place]) + tokens


def test_who_computed_beside_another_goes_on_from_the_prefix_that_both_have() -> None:
    pool = BlockPool(8, 2)
    tokens = array("I", [1, 2, 3, 4, 5, 6])
    said = contents(tokens, 2, 0, 3)
    first, beside = pool.take(2), pool.take(3)
    pool.publish(first, ROOT, said[:2])
    end = pool.publish(beside, ROOT, said)
    assert pool.match(tokens, 3) == [*first, beside[2]] and pool.place_of(pool.match(tokens, 3)) == end
    pool.check([first, beside])
