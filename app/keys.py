"""API keys: a file of them, whom a key belongs to, what it may do, and how often a stranger may guess. Knows no request.

Only digests are kept. Invariant: the work of looking a key up is the same whatever was offered, and an address that offered
ten wrong ones within a minute is not answered about any other: only keys that were right from there before still pass.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.api.errors import Problem

SCOPES = ("infer", "read", "load", "admin")
WRONG_KEYS, WITHIN_S = 10, 60.0
MOST_PEERS = 4096
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="batchscope", Basic realm="batchscope", charset="UTF-8"'}


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose key it is, and what it opens."""

    name: str
    scopes: frozenset[str] = frozenset(SCOPES)


class KeyRing:
    """The keys of a server: SHA-256 of a key → its holder."""

    def __init__(self, keys: Mapping[bytes, Holder], clock: Callable[[], float] = time.monotonic) -> None:
        self._keys = dict(keys)
        self._clock = clock
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()
        self._proved: OrderedDict[tuple[str, bytes], None] = OrderedDict()
        self._vouched: set[bytes] = set()

    def vouch(self, key: str) -> None:
        """This key cannot be guessed: its holder is never made to wait for what others try."""
        self._vouched.add(hashlib.sha256(key.encode()).digest())

    def admit(self, peer: str, header: str) -> Holder | Problem:
        """Who asks, by an Authorization header from the address `peer`; or how to refuse."""
        offered = offered_key(header)
        digest = hashlib.sha256(offered).digest()
        holder = None
        for known, whose in self._keys.items():  # all of them, always: the time tells nothing
            if hmac.compare_digest(known, digest):
                holder = whose
        wait = self._wait(peer)
        trusted = holder is not None and ((peer, digest) in self._proved or digest in self._vouched)
        if wait and offered and not trusted:
            message = "too many wrong API keys from this address"
            return Problem(429, message, None, "too_many_wrong_keys", {"Retry-After": str(wait), "Connection": "close"})
        if holder is not None:
            self._remember((peer, digest))
            return holder
        if offered:
            self._note_wrong(peer)
        return Problem(401, "a valid API key is needed: Authorization: Bearer KEY", None, "invalid_api_key", _CHALLENGE)

    def _wait(self, peer: str) -> int:
        """Seconds until this address may try another key; 0: now."""
        tried = self._wrong.get(peer)
        if tried is None or len(tried) < WRONG_KEYS:
            return 0
        left = tried[0] + WITHIN_S - self._clock()
        return int(left) + 1 if left > 0 else 0

    def _note_wrong(self, peer: str) -> None:
        self._wrong.setdefault(peer, deque(maxlen=WRONG_KEYS)).append(self._clock())
        self._wrong.move_to_end(peer)
        if len(self._wrong) > MOST_PEERS:
            self._wrong.popitem(last=False)

    def _remember(self, proof: tuple[str, bytes]) -> None:
        self._proved[proof] = None
        self._proved.move_to_end(proof)
        if len(self._proved) > MOST_PEERS:
            self._proved.popitem(last=False)


def offered_key(header: str) -> bytes:
    """The key in an Authorization header: Bearer for programs, the password of Basic for browsers; b"" if there is none."""
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode("latin-1", "replace")
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return b""
    return b""


def read_keys(text: str) -> dict[bytes, Holder]:
    """A key file: `NAME KEY [SCOPES]` a line, KEY as it is or as `sha256:<hex>`, SCOPES as `infer,read` (all without); `#`
    begins a comment. Raises ValueError, which never repeats a key."""
    keys: dict[bytes, Holder] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) not in (2, 3):
            raise ValueError(f"line {number}: expected NAME KEY [SCOPES]")
        if not _NAME.fullmatch(words[0]):
            raise ValueError(f"line {number}: a name has at most 64 letters, digits and ._@-")
        digest = _digest(number, words[1])
        if digest in keys:
            raise ValueError(f"line {number}: this key stands in the file twice")
        keys[digest] = Holder(words[0], _scopes(number, words[2]) if len(words) == 3 else frozenset(SCOPES))
    if not keys:
        raise ValueError("it holds no key")
    return keys


def _digest(number: int, key: str) -> bytes:
    hexed = key.removeprefix("sha256:")
    if hexed == key:
        return hashlib.sha256(key.encode()).digest()
    try:
        digest = bytes.fromhex(hexed)
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise ValueError(f"line {number}: a SHA-256 digest has 64 hexadecimal digits")
    return digest


def _scopes(number: int, text: str) -> frozenset[str]:
    given = text.split(",")
    unknown = [scope for scope in given if scope not in SCOPES]
    if unknown:
        raise ValueError(f"line {number}: unknown scope {unknown[0][:20]!r}; known: {', '.join(SCOPES)}")
    return frozenset(given)
