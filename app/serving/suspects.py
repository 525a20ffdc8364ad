"""Suspects: which requests may have killed the engine, and which have. Knows fingerprints and deaths; no process, no HTTP.

A fingerprint is the SHA-256 of a sequence's token ids and sampling parameters: the same request sent again has the same.
What was in the batch of an engine that died is a suspect for ten minutes, and is tried alone (acceptance.py says how). In
the batch of a second death, with nobody beside it, it is poison: its like is refused for ten minutes.
Invariant: what was never alone in a dying engine's batch is never called poison.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

import msgspec

from scheduler.engine.messages import Submit

KEPT_NS = 600_000_000_000
MOST_KEPT = 4096
_encode = msgspec.msgpack.Encoder().encode


def fingerprint(submit: Submit) -> bytes:
    """SHA-256 of prompt ids and sampling parameters."""
    digest = hashlib.sha256(_encode(submit.params))
    digest.update(submit.prompt)
    return digest.digest()


class Suspects:
    """See the module. `died` at each death, `cleared` when one got a token after all."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._suspected: OrderedDict[bytes, int] = OrderedDict()  # → until when
        self._poison: OrderedDict[bytes, int] = OrderedDict()

    @property
    def poisonous(self) -> int:
        """Fingerprints that are refused now."""
        return sum(self._clock() < until for until in self._poison.values())

    @property
    def any(self) -> bool:
        """Is there a suspect at all?"""
        return bool(self._suspected)

    def died(self, batch: Sequence[bytes]) -> bytes | None:
        """An engine died with these sequences in its batch; the one that is poison, if that is certain."""
        if len(batch) == 1 and self.suspected(batch[0]):
            self._suspected.pop(batch[0])
            self._keep(self._poison, batch[0])
            return batch[0]
        for each in batch:
            self._keep(self._suspected, each)
        return None

    def cleared(self, of: bytes) -> None:
        """It was tried, and got as far as its first token."""
        self._suspected.pop(of, None)

    def suspected(self, of: bytes) -> bool:
        """Was it in the batch of an engine that died?"""
        return self._clock() < self._suspected.get(of, 0)

    def refuses(self, submits: Sequence[Submit]) -> bool:
        """Is one of these poison? Asked of every POST, so it costs nothing while there is none."""
        return bool(self._poison) and any(self._clock() < self._poison.get(fingerprint(each), 0) for each in submits)

    def _keep(self, where: OrderedDict[bytes, int], of: bytes) -> None:
        where[of] = self._clock() + KEPT_NS
        where.move_to_end(of)
        if len(where) > MOST_KEPT:
            where.popitem(last=False)
