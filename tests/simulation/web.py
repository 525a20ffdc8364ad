"""One life of the simulated web process: the real writer, in-flight table, acceptance, engine life and feed, without sockets.

What is written anew here is only what is Flask's or gevent's in the product: the handler of a POST follows
app.api.openai._answer line by line, and the mailbox is app.serving.threads.Inbox. Invariant: all of it dies with `process`.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from queue import Empty
from typing import Any

from simulation.client import Client, LineFrames, Stream
from simulation.disk import Disk
from simulation.plan import Plan
from simulation.transport import SimulatedClient
from simulation.world import MS, Queue, World

from app.acceptance import Acceptance
from app.api import outcomes
from app.api.openai_parse import COMPLETIONS
from app.counters import Counters
from app.event_feed import EventFeed
from app.live_state import LiveState
from app.serving.answers import Answer
from app.serving.in_flight import InFlight
from app.store.accepted import AcceptedRow, sequence_ids
from app.store.writer import Writer
from app.supervisor.engine_life import EngineLife
from app.supervisor.engine_ties import Listeners
from app.wiring import ENGINE_STOP_S, Server
from scheduler.core.events import Event, RequestQueued
from scheduler.core.request import SamplingParams
from scheduler.engine.messages import Events, Ready, StepDone, Submit
from scheduler.errors import EngineGone
from scheduler.runners.base import Runner


class Web:
    """See the module. `log`: every event that the feed handed on, in order."""

    def __init__(self, world: World, disk: Disk, plan: Plan, make_runner: Callable[[], Runner], log: list[Event]) -> None:
        self.world, self.disk, self.plan = world, disk, plan
        self.process = world.process("web")
        self.engines: list[SimulatedClient] = []
        self._make_runner = make_runner
        self._mail: deque[Callable[[], object]] = deque()
        self.writer = Writer(
            disk.url,
            spawn=lambda run: world.spawn(run, self.process),
            notify=self._post,
            new_queue=lambda: Queue(world, Empty),
            wall=world.wall,
            mono=world.now,
        )
        disk.attach(self.writer._scribe._engine)
        self.in_flight = InFlight(world.now, self.writer.after)
        self.live = LiveState(world.now)
        self.counters = Counters()
        self.feed = EventFeed(self.in_flight.step, breathe=self._breathe)
        self.acceptance = Acceptance(
            self.writer,
            self.in_flight,
            storage_problem=outcomes.storage,
            crash_problem=outcomes.crashed,
            timeout_problem=outcomes.timed_out,
            poison_problem=outcomes.poison,
            clock=world.now,
        )
        self.engine = self._make_engine()
        self.acceptance.engine = self.engine
        self.draining = False
        self.strays: list[str] = []
        self._log = log

    def start(self) -> None:
        """In a greenlet of the process; raises what the disk says."""
        self.writer.start()
        Server._subscribe(self)  # type: ignore[arg-type]
        self.feed.subscribe("log", self._hear)
        self.engine.start()
        self.world.spawn(self._keep_time_outs, self.process)

    def serve(self) -> None:
        """Start, and end in order when the engine cannot start: app.serve and Server.stop."""
        self.start()
        while self.engine.status.state != "failed":
            self.world.sleep(0.2)
        self.draining = True
        self.engine.stop(ENGINE_STOP_S)
        Server._end_rest(self)  # type: ignore[arg-type]
        self.world.sleep(0.05)
        self.writer.close()

    # ---- a POST

    def post(self, client: Client) -> None:
        """The handler; in a greenlet of the process."""
        if self.draining or not self.engine.up or self.writer.trouble is not None:
            client.tell("refused", "not now")
            return
        self.world.pause(self.world.random.randrange(3 * MS))  # the tokenizer's thread
        submits, stream = _submits(client, received_at=self.world.now()), Stream(self.world, client)
        frames = LineFrames() if client.plan.stream else None
        answer: Any = Answer(client.plan.id, submits, stream, outcomes.explainer(COMPLETIONS), frames=frames, keep_text=True)  # type: ignore[arg-type]
        self.acceptance.begin(self._row(client), answer, submits)
        client.failing = lambda: self.writer.failing
        client.sent()
        answer.wait()
        if answer.problem is None and stream.lost is None and frames is not None:
            self._streamed(client, answer)
            return
        if answer.problem is None and stream.lost is None:
            answer.wait_over()
        if answer.problem is not None or stream.lost is not None:
            self._refused(client, answer)
            return
        self.acceptance.settle(answer)
        client.receive_whole(answer.texts)

    def _streamed(self, client: Client, answer: Answer) -> None:
        answer.stream.deliver()  # type: ignore[attr-defined]
        self.acceptance.settle(answer)
        if answer.problem is not None or answer.stream.lost is not None:
            self.writer.amend(answer.id, status_code=200)

    def _refused(self, client: Client, answer: Answer) -> None:
        self.acceptance.settle(answer, "client_gone" if answer.stream.lost else "operator")
        problem = answer.problem if answer.stream.lost is None and answer.problem is not None else outcomes.GONE
        self.writer.amend(answer.id, status_code=problem.status)
        client.status = problem.status
        client.tell("failed" if problem.status in (500, 504, 409) else "refused", problem.code)

    def _row(self, client: Client) -> AcceptedRow:
        plan = client.plan
        return AcceptedRow(
            plan.id,
            self.world.now(),
            self.world.wall(),
            COMPLETIONS,
            stream=plan.stream,
            tenant=plan.tenant,
            priority=plan.priority,
            sequences=len(plan.prompts),
            max_tokens=plan.max_tokens,
        )

    # ---- an operator

    def hold(self, steps: int, lasts: int) -> None:
        """Pause, some single steps, resume."""
        for what in ("pause", *["step"] * steps):
            self.ask(lambda what=what: self.engine.hold(what))
            self.world.pause(1 + lasts // (steps + 1))
        self.ask(lambda: self.engine.hold("resume"))

    def ask(self, question: Callable[[], object]) -> bool:
        """False when there is no engine to answer."""
        try:
            question()
        except EngineGone:
            return False
        return True

    # ---- pieces

    def _make_engine(self) -> EngineLife:
        world, plan = self.world, self.plan
        listeners = Listeners(
            on_events=self._take,
            on_status=self.live.engine_status,
            on_ready=self._ready,
            on_gone=self.acceptance.engine_gone,
            resubmit=self.acceptance.resubmit,
            work=lambda: self.in_flight.sequences,
        )

        def make_client(on_message: Callable[[Any], None], on_gone: Callable[[], None]) -> SimulatedClient:
            self.engines.append(SimulatedClient(world, plan.weather, self.process, self._make_runner, on_message, on_gone))
            return self.engines[-1]

        return EngineLife(
            make_client,
            plan.settings,
            {"runner": "simulated"},
            self.writer.next_boot,
            listeners,
            clock=world.seconds,
            sleep=world.sleep,
            spawn=lambda run, name: world.spawn(run, self.process),
        )

    def _ready(self, ready: Ready) -> None:
        self.world.pause(self.world.random.randrange(20 * MS))  # the tokenizer loads

    def _keep_time_outs(self) -> None:
        while not self.draining:  # Server._keep_time_outs
            self.world.sleep(1.0)
            self.acceptance.expire()

    def _take(self, message: Events | StepDone) -> None:
        self.feed.take(message)  # Server._hear
        self.acceptance.go_on()

    def _hear(self, events: list[Event], step: StepDone | None) -> None:
        self._log.extend(events)
        for event in events:
            if isinstance(event, RequestQueued) and event.id not in self.in_flight._by_id and self.engines[-1].process.alive:
                self.strays.append(event.id)

    def _breathe(self) -> None:
        self.world.pause(0)

    def _post(self, function: Callable[[], object]) -> None:
        self._mail.append(function)
        self.world.call(self.world.random.randrange(MS), self._read_mail, self.process)

    def _read_mail(self) -> None:
        while self._mail:
            self._mail.popleft()()


def _submits(client: Client, received_at: int) -> list[Submit]:
    plan = client.plan
    params = SamplingParams(max_tokens=plan.max_tokens, stop=plan.stop, ignore_eos=True)
    ids = sequence_ids(plan.id, len(plan.prompts))
    return [
        Submit(
            id,
            array("I", prompt).tobytes(),
            params,
            received_at,
            plan.tenant,
            priority=plan.priority,
            timeout_at=received_at + plan.timeout,
        )
        for id, prompt in zip(ids, plan.prompts, strict=True)
    ]
