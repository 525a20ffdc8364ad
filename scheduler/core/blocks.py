"""BlockPool: KV blocks with reference counts, and an exact index of full blocks by their whole prefix.

It does not know requests, steps or time; how many blocks admission should keep free is the caller's question.
Invariant: plain + cached + referenced = total, and every key belongs to exactly one block.
Nothing is trusted to a hash: a key is the place where the prefix before the block ends, and the block's tokens, compared
as they are. A place is the number that a content got when it was published (never given twice), or, before the first
block, the salt: prefixes under two salts share nothing.
"""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from typing import Protocol

Place = int | str
Key = tuple[Place, bytes]
ROOT = ""


def content(tokens: array[int], size: int, index: int) -> bytes:
    """The tokens of block `index` as bytes; b"" when they do not fill it."""
    end = (index + 1) * size
    return tokens[end - size : end].tobytes() if end <= len(tokens) else b""


def contents(tokens: array[int], size: int, first: int, end: int) -> list[bytes]:
    """The tokens of the full blocks `first` to `end` (exclusive) as bytes."""
    data, step = tokens[first * size : end * size].tobytes(), size * tokens.itemsize
    return [data[start : start + step] for start in range(0, len(data), step)]


class Observer(Protocol):
    """Who hears what becomes of full blocks. It is called amid a move and changes nothing but itself."""

    def block_cached(self, key: Key, place: Place) -> None:
        """The block `key` can be hit from now on; `place` is where its prefix ends."""

    def block_evicted(self, key: Key, place: Place) -> None:
        """It cannot be hit any more."""


class BlockPool:
    """`total` blocks of `size` tokens. A free block is either plain, or cached: its content may still be hit.

    salted: each tenant's prefixes have a root of their own, so that nobody can tell from a hit what another one asked.
    """

    def __init__(self, total: int, size: int, caching: bool = True, salted: bool = False) -> None:
        self.total = total
        self.free = total  # blocks that nobody references
        self.size = size
        self.caching = caching
        self.salted = salted
        self._shared: dict[int, int] = {}  # references beyond the first; few blocks have any
        self._key_of: list[Key | None] = [None] * total
        self._place_of = [0] * total
        self._plain = list(range(total - 1, -1, -1))
        self._cached: OrderedDict[int, Key] = OrderedDict()  # oldest first: the next one to be evicted
        self._index: dict[Key, int] = {}
        self._last_place = 0
        self._observer: Observer | None = None

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold `tokens` tokens."""
        return -(-tokens // self.size)

    # ---- prefixes

    def root(self, tenant: str) -> Place:
        """Where the prefixes of `tenant` begin."""
        return tenant if self.salted else ROOT

    def match(self, tokens: array[int], most: int, root: Place = ROOT) -> list[int]:
        """The blocks that already hold the longest prefix of `tokens`, at most `most`; takes no reference."""
        found: list[int] = []
        index, place_of, size, place = self._index, self._place_of, self.size, root
        for start in range(0, most * size, size):
            block = index.get((place, tokens[start : start + size].tobytes()))
            if block is None:
                break
            found.append(block)
            place = place_of[block]
        return found

    def place_of(self, hits: Sequence[int], root: Place = ROOT) -> Place:
        """Where the prefix held by `hits`, as match() gave them, ends."""
        return self._place_of[hits[-1]] if hits else root

    def after(self, place: Place, tokens: bytes) -> Place | None:
        """Where the prefix ends that goes on from `place` with `tokens`; None when no block holds them."""
        block = self._index.get((place, tokens))
        return None if block is None else self._place_of[block]

    def publish(self, blocks: Sequence[int], place: Place, contents: Sequence[bytes]) -> Place:
        """`blocks`, one after another, are full of `contents` and computed, after the prefix that ends at `place`: others may
        share them.

        Returns where the prefix ends now. An equal block published before stays the one.
        """
        if not self.caching:
            return place
        index, key_of, place_of, observer, last = self._index, self._key_of, self._place_of, self._observer, self._last_place
        for block, tokens in zip(blocks, contents, strict=True):
            key = (place, tokens)
            # One look-up: a tuple's hash is made anew for each.
            if index.setdefault(key, block) != block or key_of[block] is not None:
                place = self._known(block, key)
                continue
            place = last = last + 1
            key_of[block], place_of[block] = key, place
            if observer is not None:
                observer.block_cached(key, place)
        self._last_place = last
        return place

    def publish_one(self, block: int, place: Place, tokens: bytes) -> Place:
        """The same of one block: decodes fill theirs one at a time."""
        if not self.caching:
            return place
        key = (place, tokens)
        if self._index.setdefault(key, block) != block or self._key_of[block] is not None:
            return self._known(block, key)
        self._last_place = end = self._last_place + 1
        self._key_of[block], self._place_of[block] = key, end
        if self._observer is not None:
            self._observer.block_cached(key, end)
        return end

    def _known(self, block: int, key: Key) -> int:
        """Where the prefix of `key` ends, which was published before: by an equal block, or by this one."""
        keeper = self._index[key]
        assert keeper != block or self._key_of[block] == key, f"block {block} was published before, with other content"
        return self._place_of[keeper]

    def observe(self, observer: Observer | None) -> None:
        """`observer`, and nobody else, hears of blocks from now on."""
        self._observer = observer

    # ---- references

    def room(self, hits: Sequence[int], returned: Sequence[Sequence[int]] = ()) -> int:
        """Free blocks that would be left after sharing `hits`, were the block tables `returned` released before."""
        cached = self._cached
        if not returned:
            return self.free - sum([block in cached for block in hits])
        back, refs = Counter(block for table in returned for block in table), self._refs
        freed = sum([refs(block) == count for block, count in back.items()])
        return self.free + freed - sum([refs(block) == back[block] for block in hits])

    def _refs(self, block: int) -> int:
        """References on a block that is not plain."""
        return 0 if block in self._cached else 1 + self._shared.get(block, 0)

    def share(self, hits: Sequence[int]) -> None:
        """Take one more reference on each of `hits`."""
        cached, shared = self._cached, self._shared
        for block in hits:
            if block in cached:
                del cached[block]
                self.free -= 1
            else:
                shared[block] = shared.get(block, 0) + 1

    def take(self, count: int) -> list[int]:
        """`count` fresh blocks; that there are so many was asked before. Once no plain one is left, cached ones are evicted,
        those unused for longest first."""
        plain = self._plain
        rest = len(plain) - count
        if rest >= 0:
            blocks = plain[rest:]
            blocks.reverse()
            del plain[rest:]
        else:
            blocks = plain[::-1]
            plain.clear()
            self._evict(-rest, blocks)
        self.free -= count
        return blocks

    def release(self, blocks: Sequence[int]) -> None:
        """Give one reference on each of `blocks` back."""
        key_of, cached, plain, shared = self._key_of, self._cached, self._plain, self._shared
        kept = 0
        for block in reversed(blocks):  # tail first: the heads of prefixes, which most requests share, live longest
            if shared and block in shared:
                self._unshare(block)
                kept += 1
                continue
            key = key_of[block]
            if key is None:
                plain.append(block)
            else:
                cached[block] = key
        self.free += len(blocks) - kept

    def _unshare(self, block: int) -> None:
        """One reference of several is given back."""
        left = self._shared[block] = self._shared[block] - 1
        if not left:
            del self._shared[block]

    def _evict(self, count: int, blocks: list[int]) -> None:
        """The content of the `count` cached blocks unused for longest is forgotten; they are appended to `blocks`."""
        popitem, index, key_of, observer = self._cached.popitem, self._index, self._key_of, self._observer
        for _ in range(count):
            block, key = popitem(False)  # the oldest; `last=` by name costs as much again
            del index[key]
            key_of[block] = None
            blocks.append(block)
            if observer is not None:
                observer.block_evicted(key, self._place_of[block])

    def check(self, tables: Iterable[Sequence[int]]) -> None:
        """Assert the invariant; `tables` are all block tables that hold references."""
        held = Counter(block for table in tables for block in table)
        free = [*self._plain, *self._cached]
        assert self.free == len(free), "free blocks are miscounted"
        assert len(free) == len(set(free)) and not any(block in held for block in free), "a free block is referenced"
        more = {block: count - 1 for block, count in held.items() if count > 1}
        assert self._shared == more, "ref counts differ from references"
        assert len(held) + self.free == self.total, f"{len(held)} used + {self.free} free != {self.total}: ref counts are lost"
        assert all(self._key_of[block] is None for block in self._plain), "a plain block has a key"
        assert all(self._key_of[block] == key for block, key in self._cached.items()), "a cached block has another key"
        keyed = [block for block in range(self.total) if self._key_of[block] is not None]
        assert len(keyed) == len(self._index), "keys and blocks do not correspond"
        assert all(self._key_of[block] == key for key, block in self._index.items()), "a key points at another block"
        assert len({self._place_of[block] for block in keyed}) == len(keyed), "two blocks end at one place"
