"""The checker: what a life left behind against what was promised. Reads the journal of the clients, the records and the log.

Knows no fault plan. Invariant: every broken promise is a sentence of its own; nothing is repaired or excused silently.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from simulation.client import Client
from simulation.web import _submits
from simulation.world import START_NS

from app.store.models import WAIT_COLUMNS, metadata
from scheduler.core.events import EngineStarted, Event, RequestFinished, RequestQueued, SettingsChanged, StepCompleted
from scheduler.engine.build import request_of
from scheduler.runners.pseudo_tokens import seed_of, token_at

if TYPE_CHECKING:
    from simulation.life import Life

WELL = ("stop", "length")


def check(life: Life, ended: bool) -> list[str]:
    """All broken promises."""
    found = [] if ended else list(_unended(life))
    found += _settled(life) if ended else []
    found += _clients(life)
    found += _terminals(life)
    found += _rows(life)
    found += _log(life.log)
    found += _recorded(life)
    for table in metadata.sorted_tables:
        columns = ", ".join(column.name for column in table.columns if column.name != "web_pid")
        for row in life.disk.rows(f"SELECT {columns} FROM {table.name} ORDER BY 1, 2"):
            life.world.note(table.name, row)
    return found


# ---- liveness


def _unended(life: Life) -> Iterator[str]:
    waiting = [client.plan.id for client in life.clients if not client.over]
    web = life.web
    yield (
        f"faults ended and the system never came to rest: clients without an end {waiting}, engine {web.engine.status.state}, "
        f"in flight {web.in_flight.sequences}, writer {web.writer.stats()}"
    )


def _settled(life: Life) -> Iterator[str]:
    """At rest nothing is held."""
    web = life.web
    service = web.engines[-1].service
    assert service is not None
    pool, stats = service.loop.scheduler.pool, web.writer.stats()
    if pool.free != pool.total:
        yield f"{pool.total - pool.free} of {pool.total} blocks are held at rest"
    if (web.in_flight.sequences, web.in_flight.waiting, len(web.in_flight._by_number)) != (0, 0, 0):
        yield f"in flight at rest: {web.in_flight.sequences} sequences, {web.in_flight.waiting} waiting"
    if stats.open_requests:
        yield f"the writer follows {stats.open_requests} requests at rest"
    if stats.lost:  # rows that can never be stored
        yield f"the writer lost {stats.lost} rows: {stats.last_error}"
    if web.feed.failures:
        yield f"listeners failed: {dict(web.feed.failures)}"
    gauges = web.live.snapshot()["gauges"]
    if (gauges["waiting"], gauges["running"]) != (0, 0):
        yield f"the live page shows {gauges['waiting']} waiting and {gauges['running']} running at rest"
    strays = [id for each in life.webs for id in each.strays]
    if strays:
        yield f"the engine was given {strays}, which nobody waited for"
    canary = life.clients[-1]
    if canary.told != "finished":
        yield f"after the faults a request is not served: {canary.told} {canary.code}"


# ---- the clients' journal against the records


def _clients(life: Life) -> Iterator[str]:
    rows = {row[0]: row[1:] for row in life.disk.rows("SELECT id, state, finish, detail, output_tokens FROM requests")}
    for client in life.clients:
        row = rows.get(client.plan.id)
        if row is None:
            if client.status == 200:
                yield f"{client.plan.id} was answered 200 and has no row"
            continue
        yield from _promise(client, *row)


def _promise(client: Client, state: str, finish: str | None, detail: str | None, tokens: int | None) -> Iterator[str]:
    id, told = client.plan.id, client.told
    if state != "finished":
        yield f"{id} is {state} for ever; its client was told {told}"
        return
    if told == "finished" and finish not in WELL and not client.unsafe:
        yield f"{id} was told finished; its row says {finish}: {detail}"
    if told in ("failed", "refused") and finish in WELL:
        yield f"{id} was told {told} ({client.code}); its row says {finish}"
    alone = len(client.texts) == 1
    if alone and told == "failed" and finish == "error" and detail not in (client.code, "web_crash"):
        yield f"{id} was told {client.code}; its row says {finish}: {detail}"
    for index, text in enumerate(client.texts):
        whole, cut = _expected(client, index)
        if not cut.startswith(text) and not (whole.startswith(text) and cut + client.plan.stop[0] not in text):
            yield f"{id}/{index} was sent {text!r}, the sentence is {cut!r}"
        if told == "finished" and finish == "stop" and alone and text != cut:
            yield f"{id} stopped at {text!r}, not {cut!r}"
    if told == "finished" and finish == "length" and not client.plan.stop and tokens != sum(map(len, client.texts)):
        yield f"{id} was sent {sum(map(len, client.texts))} tokens; its row counts {tokens}"


def _expected(client: Client, index: int) -> tuple[str, str]:
    """The sentence of a sequence, whole and cut at its stop string; what was held back for a stop follows an early end."""
    request = request_of(_submits(client, 0)[index], ())
    seed = request.params.seed or seed_of(request.id)
    whole = bytes(token_at(seed, n) for n in range(client.plan.max_tokens)).decode()
    cut = whole
    for stop in client.plan.stop:
        cut = cut.partition(stop)[0]
    return whole, cut


def _terminals(life: Life) -> Iterator[str]:
    """Exactly one terminal event for each sequence of each row."""
    counts: dict[str, int] = dict(
        life.disk.rows("SELECT sequence_id, count(*) FROM request_events WHERE terminal GROUP BY sequence_id")
    )
    ids = {row[0] for row in life.disk.rows("SELECT id FROM requests")}
    for client in life.clients:
        if client.plan.id in ids:
            for submit in _submits(client, 0):
                if counts.get(submit.id, 0) != 1:
                    yield f"{submit.id} has {counts.get(submit.id, 0)} terminal events"


def _rows(life: Life) -> Iterator[str]:
    """The parts of E2E sum to E2E."""
    parts = ", ".join((*WAIT_COLUMNS, "prefill_ns", "decode_ns", "stalled_ns", "preempted_ns"))
    for id, received, finished, *values in life.disk.rows(f"SELECT id, received_at, finished_at, {parts} FROM requests"):
        if values[0] is not None and sum(values) != finished - received:
            yield f"the parts of {id} sum to {sum(values)}, its E2E is {finished - received}"
        if received < START_NS:
            yield f"{id} was received before time began"


# ---- the log


def _log(log: list[Event]) -> Iterator[str]:
    """Seqs without a hole in each boot, and no step over the budget in force."""
    boot, seq, budget = 0, 0, 0
    for event in log:
        if event.boot != boot:
            if event.boot < boot:
                yield f"an event of boot {event.boot} after boot {boot}"
            boot, seq = event.boot, 0
        if event.seq != seq + 1:
            yield f"boot {boot}: seq {event.seq} after {seq}"
        seq = event.seq
        match event:
            case EngineStarted():
                budget = int(dict(event.settings)["max_num_batched_tokens"])  # type: ignore[call-overload]
            case SettingsChanged():
                budget = int(dict(event.changes).get("max_num_batched_tokens", budget))  # type: ignore[call-overload]
            case StepCompleted():
                tokens = len(event.decodes) + event.prefill_tokens
                if tokens > max(budget, len(event.decodes)):
                    yield f"boot {boot} step {event.step}: {tokens} tokens in a budget of {budget}"


def _recorded(life: Life) -> Iterator[str]:
    """The records hold what the feed handed on, without a hole; a killed web process may lack the last of it.

    Not kept: events of a POST that the disk refused, and the end of one that the web itself had ended first.
    """
    held: dict[int, set[int]] = {}
    for table in ("request_events", "steps", "settings_changes"):
        for boot, seq in life.disk.rows(f"SELECT boot, seq FROM {table}"):
            held.setdefault(boot, set()).add(seq)
    last: dict[int, int] = {boot: max(seqs) for boot, seqs in held.items()}
    rows = {row[0] for row in life.disk.rows("SELECT id FROM requests")}
    by_web = {row[0] for row in life.disk.rows("SELECT sequence_id FROM request_events e JOIN boots b USING (boot) WHERE "
                                               "terminal AND b.runner = 'web'")}  # fmt: skip
    names: dict[tuple[int, int], str] = {}
    for event in life.log:
        if isinstance(event, RequestQueued):
            names[event.boot, event.seq] = event.id
        if isinstance(event, EngineStarted) or event.seq in held.get(event.boot, ()):
            continue
        id = getattr(event, "id", None) or names.get((event.boot, getattr(event, "number", 0)), "")
        refused = id and id.partition("/")[0] not in rows
        second = isinstance(event, RequestFinished) and id in by_web
        cut_off = life.killed_webs and event.seq > last.get(event.boot, 0)
        if not (refused or second or cut_off):
            yield f"boot {event.boot}: the records lack seq {event.seq}: {event}"
