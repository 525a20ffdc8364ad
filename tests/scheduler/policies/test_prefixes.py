"""What is known of waiting requests' prefixes is what a match would find, and learning it is never a long step."""

from __future__ import annotations

import random
from array import array

from builders import make_request

from scheduler.core.blocks import ROOT, BlockPool, content
from scheduler.core.policies.prefixes import WAKE_UPS, PrefixWatch
from scheduler.core.request import Request


class Listener:
    """A watch, and how many tokens it says that each request can hit."""

    def __init__(self, pool: BlockPool | None) -> None:
        self.watch = PrefixWatch(pool, self.moved)
        self.tokens: dict[int, int] = {}
        self.moves = 0

    def moved(self, request: Request, tokens: int) -> None:
        assert self.tokens[request.number] != tokens, "told of a move that is none"
        self.tokens[request.number] = tokens
        self.moves += 1

    def add(self, request: Request, number: int) -> Request:
        request.number = number
        self.tokens[number] = self.watch.add(request)
        return request

    def settle(self) -> int:
        """Everything there is; how many steps it took."""
        steps = 0
        while self.watch._news:
            before = self.moves
            self.watch.step()
            self.watch.settle()
            assert self.moves - before <= WAKE_UPS
            steps += 1
        return steps


def published(pool: BlockPool, tokens: list[int]) -> list[int]:
    """A table that holds the full blocks of `tokens`, published."""
    ids = array("I", tokens)
    hits = pool.match(ids, len(ids) // pool.size)
    pool.share(hits)
    place = pool.place_of(hits)
    for index in range(len(hits), len(ids) // pool.size):
        (block,) = pool.take(1)
        place = pool.publish([block], place, [content(ids, pool.size, index)])
        hits.append(block)
    return hits


def matched(pool: BlockPool, request: Request) -> int:
    """Tokens of `request` that its admission would hit now."""
    most = (len(request.tokens) - 1) // pool.size
    return len(pool.match(request.tokens, most, pool.root(request.tenant))) * pool.size


def test_once_settled_it_knows_what_a_match_would_find_whatever_happened() -> None:
    rng, pool = random.Random(11), BlockPool(24, 2)
    listener, here, tables, checked = Listener(pool), dict[int, Request](), list[list[int]](), 0
    for turn in range(4000):
        match rng.randrange(6):
            case 0 | 1:
                prompt = [rng.randrange(2) for _ in range(rng.randrange(1, 13))]
                here[turn] = listener.add(make_request(prompt=prompt), turn)
            case 2 if here:
                listener.watch.remove(here.pop(rng.choice(list(here))))
            case 3 if tables:
                pool.release(tables.pop(rng.randrange(len(tables))))
            case _ if pool.free >= 6:
                tables.append(published(pool, [rng.randrange(2) for _ in range(rng.randrange(13))]))
        if rng.random() < 0.2:
            listener.settle()
            for number, request in here.items():
                assert listener.tokens[number] == matched(pool, request), f"{request} on turn {turn}"
                checked += listener.tokens[number] > 0
    assert checked > 1000, "hardly anybody could hit anything"
    for request in here.values():
        listener.watch.remove(request)
    listener.settle()
    assert not listener.watch._at, "somebody was left behind"


def test_however_many_share_a_prefix_a_step_looks_at_a_bounded_number() -> None:
    pool, many = BlockPool(400, 4), 5 * WAKE_UPS - 1
    listener = Listener(pool)
    for number in range(many):
        listener.add(make_request(prompt=[*range(64), 100 + number]), number)
    table = published(pool, list(range(64)))
    assert listener.settle() == 5 and set(listener.tokens.values()) == {64}, "each once, though 16 blocks came"
    pool.release(table)
    published(pool, list(range(1000, 1000 + 4 * 400)))  # takes them all
    assert listener.settle() == 5 and set(listener.tokens.values()) == {0}


def test_news_of_what_nobody_waits_for_is_not_kept() -> None:
    pool = BlockPool(8, 4)
    listener = Listener(pool)
    listener.add(make_request(prompt=range(9)), 1)
    pool.release(published(pool, [7] * 32))
    published(pool, [8] * 32)
    assert not listener.watch._news
    assert listener.watch.still(make_request(prompt=range(9))), "no news: nothing is looked at"


def test_head_whose_prefix_went_unheard_is_found_out() -> None:
    pool = BlockPool(4, 4)
    pool.release(published(pool, list(range(8))))
    listener = Listener(pool)
    request = listener.add(make_request(prompt=range(9)), 1)
    assert listener.tokens[1] == 8
    table = published(pool, [9] * 16)
    assert not listener.watch.still(request) and listener.tokens[1] == 0
    pool.release(table)
    assert listener.watch.still(request)


def test_last_token_is_always_computed() -> None:
    pool = BlockPool(8, 4)
    published(pool, list(range(8)))
    listener = Listener(pool)
    assert listener.add(make_request(prompt=range(8)), 1).queue_data == (
        pool.after(ROOT, content(array("I", range(4)), 4, 0)),
        1,
    )
    assert listener.tokens[1] == 4, "of two blocks that could be hit, one"


def test_salted_tenants_do_not_see_one_another() -> None:
    pool = BlockPool(8, 4, salted=True)
    (block,) = pool.take(1)
    pool.publish([block], pool.root("ann"), [content(array("I", range(4)), 4, 0)])
    listener = Listener(pool)
    listener.add(make_request(prompt=range(5), tenant="ann"), 1)
    listener.add(make_request(prompt=range(5), tenant="bob"), 2)
    assert listener.tokens == {1: 4, 2: 0}


def test_without_a_pool_or_caching_nobody_can_hit_anything() -> None:
    for pool in (None, BlockPool(8, 4, caching=False)):
        listener = Listener(pool)
        request = listener.add(make_request(prompt=range(9)), 1)
        listener.watch.settle()
        assert listener.tokens == {1: 0} and listener.watch.still(request)
        listener.watch.remove(request)
