"""Does what the client sent match what the server recorded? Rows of both in, counts and names out. Knows no SQL.

A client row has *reached* the server when it carries an id of ours or was answered well; a request that was refused on
the way (by a proxy, by a closed port) has not, and is named apart. Every request that reached must have its row.
Invariant: sent = ok + failed + refused + cancelled + incomplete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from app.store.client_rows import FAILED

MOST_NAMES = 1000
Row = Mapping[str, Any]


def reconcile(server: Sequence[Row], client: Sequence[Row], *, server_side: bool = True) -> dict[str, Any]:
    """The reconciliation of a report. open_rows: how many of server_rows have not ended and have no figures yet.

    The lists hold client request ids (a server row without one: its own id).
    """
    counts = Counter(row["status"] for row in client)
    found: dict[str, Any] = {
        "sent": len(client),
        "ok": counts["ok"],
        "failed": sum(counts[status] for status in FAILED),
        "refused": counts["shed"],
        "cancelled": counts["client_cancel"],
        "incomplete": counts["incomplete"],
        "server_rows": len(server) if server_side else None,
        "open_rows": sum(row["finish"] is None for row in server) if server_side else None,
        "by_status": dict(counts),
        "broken": [
            {"id": row["client_request_id"], "status": row["status"], "error": row["error"]}
            for row in client
            if row["status"] in FAILED
        ],
    }
    names = _names(server, client) if server_side else dict.fromkeys(_LISTS, [])
    reached = len(client) - len(names["unreached"])
    found["difference"] = len(server) - reached if server_side else None
    found["counts"] = {name: len(ids) for name, ids in (names | {"broken": found["broken"]}).items()}
    return found | {name: ids[:MOST_NAMES] for name, ids in names.items()} | {"broken": found["broken"][:MOST_NAMES]}


def mismatch(reconciliation: Mapping[str, Any]) -> str | None:
    """Why the two sides do not match, naming the first requests; None when they do."""
    said = {
        "missing_on_server": "reached the server but {have} no row there",
        "missing_on_client": "{have} a server row but none of the client",
        "repeated_on_server": "{have} more server rows than the client made attempts",
    }
    for name, words in said.items():
        count = reconciliation["counts"][name]
        if count:
            ids = reconciliation[name]
            shown = ", ".join(ids[:3]) + (", …" if count > 3 else "")
            who, have = ("request", "has") if count == 1 else ("requests", "have")
            return f"{count} {who} {words.format(have=have)}: {shown}"
    return None


_LISTS = ("missing_on_server", "missing_on_client", "repeated_on_server", "unreached")


def _names(server: Sequence[Row], client: Sequence[Row]) -> dict[str, list[str]]:
    rows = Counter(row["client_request_id"] for row in server if row["client_request_id"] is not None)
    sent = {row["client_request_id"]: row for row in client}
    absent = [row for row in client if row["client_request_id"] not in rows]
    return {
        "missing_on_server": [row["client_request_id"] for row in absent if _reached(row)],
        "unreached": [row["client_request_id"] for row in absent if not _reached(row)],
        "missing_on_client": [row["client_request_id"] or row["id"] for row in server if row["client_request_id"] not in sent],
        "repeated_on_server": [key for key, n in rows.items() if key in sent and n > max(1, sent[key]["attempts"] or 1)],
    }


def _reached(row: Row) -> bool:
    return row["server_id"] is not None or row["status"] == "ok"
