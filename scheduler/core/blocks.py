"""BlockPool: KV blocks with reference counts, and an index of full blocks by the hash of their whole prefix.

It does not know requests, steps or time; how many blocks admission should keep free is the caller's question.
Invariant: plain + cached + referenced = total, and every published key belongs to exactly one block.
Equal keys mean equal prefixes: a key is sha256 over the parent's key and the block's tokens, so it covers everything
from the first token on.
"""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import sha256

TOKEN_BYTES = 4
ROOT = b""
assert array("I").itemsize == TOKEN_BYTES


def chain_keys(tokens: array[int], size: int, keys: list[bytes]) -> None:
    """Extend `keys` by the keys of all full blocks of `tokens` that it lacks."""
    have, full = len(keys), len(tokens) // size
    if have >= full:
        return
    parent = keys[-1] if keys else ROOT
    raw, step = tokens[have * size : full * size].tobytes(), size * TOKEN_BYTES
    for start in range(0, len(raw), step):
        parent = sha256(parent + raw[start : start + step]).digest()
        keys.append(parent)


class BlockPool:
    """`total` blocks of `size` tokens. A free block is either plain, or cached: its content may still be hit."""

    def __init__(self, total: int, size: int, caching: bool = True) -> None:
        self.total = total
        self.size = size
        self.caching = caching
        self._refs = [0] * total
        self._key_of: list[bytes | None] = [None] * total
        self._plain = list(range(total - 1, -1, -1))
        self._cached: OrderedDict[int, None] = OrderedDict()  # oldest first: the next one to be evicted
        self._by_key: dict[bytes, int] = {}

    @property
    def free(self) -> int:
        """Blocks that nobody references."""
        return len(self._plain) + len(self._cached)

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold `tokens` tokens."""
        return -(-tokens // self.size)

    def match(self, keys: Sequence[bytes], most: int) -> list[int]:
        """The blocks that already hold the longest prefix of `keys`, at most `most`; takes no reference."""
        found: list[int] = []
        get = self._by_key.get
        for key in keys[:most]:
            block = get(key)
            if block is None:
                break
            found.append(block)
        return found

    def room(self, hits: Sequence[int], returned: Sequence[Sequence[int]] = ()) -> int:
        """Free blocks that would be left after sharing `hits`, were the block tables `returned` released before."""
        refs = self._refs
        if not returned:
            return self.free - sum([not refs[block] for block in hits])
        back = Counter(block for table in returned for block in table)
        freed = sum([refs[block] == count for block, count in back.items()])
        return self.free + freed - sum([refs[block] == back[block] for block in hits])

    def share(self, hits: Sequence[int]) -> None:
        """Take one more reference on each of `hits`."""
        refs = self._refs
        for block in hits:
            if not refs[block]:
                del self._cached[block]
            refs[block] += 1

    def take(self) -> int | None:
        """One fresh block, or None; evicts the cached block unused for longest when no plain one is left."""
        if self._plain:
            block = self._plain.pop()
        elif self._cached:
            block, _ = self._cached.popitem(last=False)
            self._forget(block)
        else:
            return None
        self._refs[block] = 1
        return block

    def publish(self, block: int, key: bytes) -> None:
        """`block` is full and computed: others may share it. An equal block published before stays the one."""
        if self.caching and self._key_of[block] is None and key not in self._by_key:
            self._by_key[key] = block
            self._key_of[block] = key

    def release(self, blocks: Sequence[int]) -> None:
        """Give one reference on each of `blocks` back."""
        refs, key_of = self._refs, self._key_of
        for block in reversed(blocks):  # tail first: the heads of prefixes, which most requests share, live longest
            refs[block] -= 1
            if not refs[block]:
                if key_of[block] is None:
                    self._plain.append(block)
                else:
                    self._cached[block] = None

    def _forget(self, block: int) -> None:
        key = self._key_of[block]
        assert key is not None, f"cached block {block} has no key"
        del self._by_key[key]
        self._key_of[block] = None

    def check(self, tables: Iterable[Sequence[int]]) -> None:
        """Assert the invariant; `tables` are all block tables that hold references."""
        held = Counter(block for table in tables for block in table)
        assert all(self._refs[block] == held[block] for block in range(self.total)), "ref counts differ from references"
        used = sum(1 for count in self._refs if count)
        assert used + self.free == self.total, f"{used} used + {self.free} free != {self.total}"
        free = [*self._plain, *self._cached]
        assert len(free) == len(set(free)) and not any(self._refs[block] for block in free), "a free block is referenced"
        assert all(self._key_of[block] is None for block in self._plain), "a plain block has a key"
        assert all(self._key_of[block] is not None for block in self._cached), "a cached block has no key"
        keyed = sum(1 for key in self._key_of if key is not None)
        assert keyed == len(self._by_key), "keys and blocks do not correspond"
        assert all(self._key_of[block] == key for key, block in self._by_key.items()), "a key points at another block"
