"""Connections: bounded for other machines, by address and in all; loopback has the room that open files leave."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.serving.connections import Connections, peer_of, room_for_local


def test_one_address_has_its_share_and_all_have_theirs() -> None:
    connections = Connections(5, 3, 0)
    assert [connections.enter("192.0.2.1") for _ in range(4)] == [True] * 3 + [False]
    assert [connections.enter("192.0.2.2") for _ in range(3)] == [True] * 2 + [False]
    connections.leave("192.0.2.1")
    assert connections.enter("192.0.2.2") and not connections.enter("192.0.2.1")
    assert connections.remote == 5 and connections.refused == 3


def test_loopback_has_a_bound_of_its_own() -> None:
    connections = Connections(1, 1, 4)
    assert connections.enter("192.0.2.1")
    assert [connections.enter(address) for address in ("127.0.0.1", "127.8.9.1", "::1", "", "127.0.0.1")] == [True] * 4 + [
        False
    ]
    assert connections.local == 4 and connections.remote == 1


def test_no_limit_is_none() -> None:
    connections = Connections(0, 0, 0)
    assert all(connections.enter(address) for address in ["192.0.2.1", "127.0.0.1"] * 5000)


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::ffff:127.0.0.1", ""),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1%eth0", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("", ""),
    ],
)
def test_whom_an_address_counts_for(address: str, peer: str) -> None:
    assert peer_of(address) == peer


@given(st.lists(st.tuples(st.sampled_from(["192.0.2.1", "192.0.2.2", "2001:db8::1", "127.0.0.1"]), st.booleans())))
def test_whatever_comes_and_goes_the_counts_agree(moves: list[tuple[str, bool]]) -> None:
    connections = Connections(6, 3, 2)
    inside: list[str] = []
    for address, comes in moves:
        if comes and connections.enter(address):
            inside.append(address)
        elif not comes and address in inside:
            inside.remove(address)
            connections.leave(address)
        assert connections.local == inside.count("127.0.0.1") <= 2
        assert connections.remote == len(inside) - connections.local <= 6
        assert all(inside.count(each) <= 3 for each in inside)
    for address in inside:
        connections.leave(address)
    assert connections.local == connections.remote == 0 and not connections._by_peer


def test_open_files_leave_room() -> None:
    assert room_for_local() >= 64
