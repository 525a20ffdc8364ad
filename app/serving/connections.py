"""How many connections there may be: in all, from one address, and what this machine's own may take. Knows no socket.

Connections from other machines are strangers' until a request of theirs is served, so their number is bounded tightly. Those
over loopback are this machine's user's, a load generator holds thousands: only the open files of the process bound them.
Invariant: every `enter` that answered True is followed by one `leave` of the same address.
"""

from __future__ import annotations

import ipaddress
import resource
from collections import Counter

RESERVED_FILES = 512  # database, engine, static files, pipes
MOST_FILES = 65_536


class Connections:
    """A limit of 0 is none."""

    def __init__(self, most: int, most_per_peer: int, most_local: int) -> None:
        self._most = most
        self._most_per_peer = most_per_peer
        self._most_local = most_local
        self._by_peer: Counter[str] = Counter()
        self.remote = 0
        self.local = 0
        self.refused = 0

    def enter(self, address: str) -> bool:
        """A connection came. False: there is no room for it, it must be closed at once."""
        peer = peer_of(address)
        if self._full(peer):
            self.refused += 1
            return False
        if peer == "":
            self.local += 1
        else:
            self.remote += 1
            self._by_peer[peer] += 1
        return True

    def leave(self, address: str) -> None:
        """A connection that had entered has ended."""
        peer = peer_of(address)
        if peer == "":
            self.local -= 1
            return
        self.remote -= 1
        self._by_peer[peer] -= 1
        if not self._by_peer[peer]:
            del self._by_peer[peer]

    def _full(self, peer: str) -> bool:
        if peer == "":
            return 0 < self._most_local <= self.local
        return 0 < self._most <= self.remote or 0 < self._most_per_peer <= self._by_peer[peer]


def peer_of(address: str) -> str:
    """Whom an address counts for: "" for this machine; an IPv6 network of 64 bits is one peer, as one host owns all of it."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""  # a socket without addresses is local
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    if ip.is_loopback:
        return ""
    return str(ip) if ip.version == 4 else str(ipaddress.ip_network((int(ip) >> 64 << 64, 64)))


def room_for_local() -> int:
    """Raise this process's limit of open files as far as it may, and say how many connections that leaves room for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(64, max(soft, most) - RESERVED_FILES)
