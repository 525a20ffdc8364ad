"""A short load run in the records, as both sides saw it: for tests of what is made from one."""

from __future__ import annotations

from functools import partial
from typing import Any

from records import WALL, Records, make_bench, some_requests

from app.store import client_rows, runs
from app.store.runs import NewRun


def line(id: str, n: int, **fields: Any) -> dict[str, Any]:
    """A client's line of a request that went well, sent at n × 10 ms, first token 40 ms later, 3 tokens."""
    sent = 10.0 * n
    given = {"sent_ms": sent, "due_ms": sent, "first_ms": sent + 40, "last_ms": sent + 60, "end_ms": sent + 61}
    given |= {"status": "ok", "http": 200, "prompt_tokens": 5, "output_tokens": 3, "gaps_ms": [8.0, 12.0]}
    return {"id": id, "n": n, "server_id": f"req_{n}", "attempts": 1} | given | fields


def add_lines(records: Records, run: str, lines: list[dict[str, Any]]) -> None:
    records.job(partial(client_rows.add, run=run, rows=[client_rows.row(run, each) for each in lines]))


def play_run(records: Records, run: str = "one", boot: int = 2, prefix: str = "", **fields: Any) -> Any:
    """Eight requests through two slots, each seen by the client as well; the run is over."""
    new = NewRun(run, WALL - 1, started_wall=WALL - 1, scenario="steady", seed=1, **fields)
    records.job(partial(runs.create, run=new))
    bench = make_bench(boot, max_num_seqs=2)
    requests = some_requests(8)
    for request in requests:
        request.id = prefix + request.id
    records.play(bench, requests, run=run, settings={"max_num_seqs": 2})
    add_lines(records, run, [line(f"c-{request.id}", n, tenant=request.tenant) for n, request in enumerate(requests)])
    records.job(partial(runs.change, run_id=run, status="finished", ended_wall=WALL + 10**12))
    return bench
