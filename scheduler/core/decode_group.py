"""DecodeGroup: all requests that have caught up, kept as one thing. Decides nothing, owns no blocks.

A caught-up request gets exactly one token in every step until it leaves. So the step in which it needs its next block
and the step in which it ends by length are known when it joins, and a step costs O(changes), not O(members):
  needing[turn % size]  whose newest token opens a new block in that turn (and filled one in the turn before)
  ending[turn]          who reaches its length in that turn
  union                 all stop ids: the members are looked at only when the step's tokens meet it
A turn is a step in which the members got a token: all steps but those in which they stand still while others prefill.
Appending the step's tokens is one loop inside C. Invariant: the four indexes hold exactly the members.
While a request is a member its `computed` is not written; it is `len(tokens) - 1`.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from scheduler.core.request import Request

_append = array.append
_exhaust: Callable[[Iterable[object]], None] = deque[object](maxlen=0).extend  # runs an iterator to its end inside C


class DecodeGroup:
    """The decodes. `members` and `numbers` are shared with plans: rebuilt by `settle`, never mutated."""

    def __init__(self, block_size: int, longest: int) -> None:
        self.members: list[Request] = []
        self.numbers: tuple[int, ...] = ()
        self.changed = False
        self.context = 0  # tokens of all members, the newest of which each are not computed yet
        self._still = 0  # steps in which the members stood still
        self._size = block_size
        self._longest = longest
        self._by_number: dict[int, Request] = {}
        self._needing: list[dict[int, Request]] = [{} for _ in range(block_size)]
        self._ending: defaultdict[int, dict[int, Request]] = defaultdict(dict)
        self._stop_counts: Counter[int] = Counter()
        self._union: set[int] = set()
        self._tokens: list[array[int]] = []

    def __len__(self) -> int:
        return len(self._by_number)

    def __contains__(self, request: Request) -> bool:
        return request.number in self._by_number

    def everyone(self) -> Iterable[Request]:
        """The members as of now, in the order in which they joined."""
        return self._by_number.values()

    def join(self, request: Request, step: int) -> None:
        """`request` caught up in `step`: it decodes from the next one on."""
        length = len(request.tokens)
        left = min(request.params.max_tokens - request.output_tokens, self._longest - length)
        turn = step - self._still
        request.phase = (turn + 2 - length) % self._size
        request.ends_at = turn + left
        self._by_number[request.number] = request
        self._needing[request.phase][request.number] = request
        self._ending[request.ends_at][request.number] = request
        self.context += length
        stop_ids = request.params.stop_token_ids
        if stop_ids:
            self._stop_counts.update(stop_ids)
            self._union.update(stop_ids)
        self.changed = True

    def leave(self, request: Request) -> None:
        """`request` decodes no longer, whatever the cause."""
        number = request.number
        del self._by_number[number], self._needing[request.phase][number]
        ending = self._ending[request.ends_at]
        del ending[number]
        if not ending:
            del self._ending[request.ends_at]
        self.context -= len(request.tokens)
        request.computed = len(request.tokens) - 1
        for token in request.params.stop_token_ids:
            self._stop_counts[token] -= 1
            if not self._stop_counts[token]:
                del self._stop_counts[token]
                self._union.discard(token)
        self.changed = True

    def settle(self) -> bool:
        """Rebuild what plans share if somebody joined or left; True if so."""
        if not self.changed:
            return False
        self.members = list(self._by_number.values())
        self.numbers = tuple(self._by_number)
        self._tokens = [request.tokens for request in self.members]
        self.changed = False
        return True

    def stand_still(self) -> None:
        """The step that is being planned gives the members no token."""
        self._still += 1

    def needing(self, step: int) -> list[Request]:
        """Members whose token of `step` opens a new block. Asked for the step to come: whose last block is now full."""
        needing = self._needing[(step - self._still) % self._size]
        return list(needing.values()) if needing else []

    def needy(self, step: int) -> int:
        """How many `needing` would return, at most."""
        return len(self._needing[(step - self._still) % self._size])

    def first_end(self, step: int) -> int:
        """Tokens, from `step` on, until the first member reaches its length; a stop may end it before. 0: nobody is here."""
        return min(self._ending) - (step - self._still) + 1 if self._ending else 0

    def append(self, tokens: Sequence[int], failed: Mapping[int, str]) -> list[Request]:
        """Give each member its token; returns rows that take none: those in `failed`, and who left during the step."""
        if not failed and not self.changed:
            _exhaust(map(_append, self._tokens, tokens))
            self.context += len(self._by_number)
            return []
        without = []
        for row, request in enumerate(self.members):
            if row in failed or request not in self:
                without.append(request)
            else:
                request.tokens.append(tokens[row])
                self.context += 1
        return without

    def stopping(self, tokens: Sequence[int]) -> list[Request]:
        """Members whose newest token is one of their stop ids; `tokens` are all of the step."""
        if not self._union or self._union.isdisjoint(tokens):  # without any, it would look at every token all the same
            return []
        return [request for request in self.members if request in self and request.tokens[-1] in request.params.stop_token_ids]

    def ending(self, step: int) -> list[Request]:
        """Members that reach their length in `step`."""
        turn = step - self._still
        return list(self._ending[turn].values()) if turn in self._ending else []

    def check(self) -> None:
        """Assert the invariant."""
        members = self._by_number
        assert sorted(members) == sorted(n for index in self._needing for n in index), "needing differs from the members"
        assert sorted(members) == sorted(n for index in self._ending.values() for n in index), "ending differs"
        assert self.context == sum(len(request.tokens) for request in members.values()), "context differs"
        counts = Counter(token for request in members.values() for token in request.params.stop_token_ids)
        assert counts == self._stop_counts and set(counts) == self._union, "stop ids differ"
