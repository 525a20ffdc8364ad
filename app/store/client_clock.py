"""The clock of a load generator beside ours: where its instants lie among those of a request. Knows rows, no HTTP.

A client's instants count from a start that only it knows. No answer comes before its question, so each pair of a run
bounds the difference of the two: we received no earlier than it sent, and it saw a first token no earlier than we made
it. The middle between the tightest bounds is taken, and half their distance said as the error (as NTP does; RFC 5905 §8).
Invariant: with the offset that is told, no pair looked at has an effect before its cause; where none is left, none is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, and_, select

from app.store.models import client_requests, requests

MOST_PAIRS = 200  # of the run, the last that came before the request and itself
INSTANTS = ("due_ms", "sent_ms", "first_ms", "last_ms")


def on_our_clock(connection: Connection, row: Mapping[str, Any], seen: Mapping[str, Any]) -> dict[str, Any] | None:
    """{due_ms, sent_ms, first_ms, last_ms: since we received it, error_ms}; None where the clocks cannot be compared."""
    server, client = requests.c, client_requests.c
    question = (
        select(server.received_at, server.first_token_at, client.sent_ms, client.first_ms)
        .join_from(
            requests, client_requests, and_(client.run == server.run, client.client_request_id == server.client_request_id)
        )
        .where(server.run == row["run"], server.received_wall <= row["received_wall"], client.sent_ms.is_not(None))
        .order_by(server.received_wall.desc())
        .limit(MOST_PAIRS)
    )
    least, most = float("-inf"), float("inf")  # of what is added to the client's ms to make them ms since received
    for pair in connection.execute(question):
        most = min(most, (pair.received_at - row["received_at"]) / 1e6 - pair.sent_ms)
        if pair.first_token_at is not None and pair.first_ms is not None:
            least = max(least, (pair.first_token_at - row["received_at"]) / 1e6 - pair.first_ms)
    if not float("-inf") < least <= most < float("inf"):
        return None
    offset = (least + most) / 2
    shown = {name: None if seen[name] is None else seen[name] + offset for name in INSTANTS}
    return shown | {"error_ms": (most - least) / 2}
