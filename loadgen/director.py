"""Conducts a run: makes its plan, prints progress, ends it in time, closes it. Import only where Locust may patch.

Knows a crew and Locust's runner, no HTTP and no request. Locust keeps users and processes; the run's end is ours.
Orders come on stdin (orders.py); what became of them stands in the next progress line: `rate_factor`, `rate_changes`, `users`.
Invariant: Locust stops only after the crew has recorded what was in flight, and the run is closed exactly once.
A run whose progress nobody reads any more stops by itself: the supervisor that would have stopped it is dead.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import gevent
import orjson

from loadgen.crew import STOP_DRAIN_S, Crew
from loadgen.orders import Change, Changes, listen
from loadgen.params import ScenarioError, split_pairs
from loadgen.part import target_of
from loadgen.plan import Plan, Wishes, make, write_run_file
from loadgen.target import TargetError

PROGRESS_S = 1.0


class Director:
    """`begin` and `end` are Locust's test_start and test_stopping; `end` may come again while it lasts."""

    def __init__(self, environment: Any, crew: Crew) -> None:
        self._environment = environment
        self._options = environment.parsed_options
        self._crew = crew
        self._plan: Plan | None = None
        self._started = 0.0
        self._sent = 0
        self._printed_at = self._rate = 0.0
        self._changes = Changes()
        self._listener: gevent.Greenlet | None = None

    def begin(self) -> None:
        self._plan = None
        wishes = wishes_of(self._options, self._environment.host)
        try:
            plan = make(wishes, target_of(wishes.url), self._crew.processes(), self._crew.head_start_s)
            write_run_file(plan, {})
        except (ScenarioError, TargetError, OSError) as error:
            print(f"loadgen: {error}", file=sys.stderr, flush=True)
            self._environment.process_exit_code = 1
            gevent.spawn(self._end_locust)
            return
        self._plan = plan
        self._sent, self._printed_at, self._changes = 0, time.perf_counter(), Changes()
        self._started = time.perf_counter() + (plan.started_wall - time.time())
        self._crew.start(plan)
        gevent.spawn(self._watch, plan)
        if self._options.orders and self._listener is None:
            self._listener = gevent.spawn(listen, self._change_rate, self._hurry)

    def end(self) -> None:
        """Locust stops the test: our own natural end, a signal, its run time, or its page."""
        plan = self._plan
        if plan is None:
            return
        self._crew.finish(STOP_DRAIN_S)
        if self._plan is plan:
            self._plan = None
            self._close(plan)

    def _change_rate(self, factor: float) -> None:
        plan = self._plan
        if plan is not None:
            change = Change(time.perf_counter() - self._started + self._crew.head_start_s, factor)
            self._changes.add(change)
            self._crew.change_rate(change.at_s, change.factor)
            self._print(plan)

    def _hurry(self) -> None:
        """Nothing more is sent, what is in flight is given up: an end that is under way becomes short, or this is it."""
        if self._plan is not None:
            gevent.spawn(self._crew.finish, 0.0)

    def _watch(self, plan: Plan) -> None:
        """Progress once a second; the natural end of the run."""
        scenario = plan.scenario
        over = self._started + scenario.duration_s
        while self._plan is plan and not self._crew.at_rest() and time.perf_counter() < over:
            gevent.sleep(max(0.0, min(PROGRESS_S, over - time.perf_counter())))
            self._print(plan)
        if self._plan is not plan:
            return  # stopped meanwhile; the crew may already be at the next run
        printer = gevent.spawn(self._print_on, plan)
        self._crew.finish(scenario.drain_s)
        printer.kill()
        if self._plan is plan:
            self._end_locust()

    def _print_on(self, plan: Plan) -> None:
        while True:
            gevent.sleep(PROGRESS_S)
            self._print(plan)

    def _close(self, plan: Plan) -> None:
        self._print(plan)
        totals = self._crew.totals().as_json()
        write_run_file(plan, {"totals": totals, "capacity": self._crew.capacity(), "workers_lost": self._crew.lost()})
        if plan.external:
            try:
                target_of(plan.wishes.url).stop(plan.run)
            except TargetError as error:
                print(f"loadgen: the run could not be closed: {error}", file=sys.stderr, flush=True)

    def _end_locust(self) -> None:
        runner = self._environment.runner
        if self._options.headless:
            runner.quit()
        else:
            runner.stop()

    def _print(self, plan: Plan) -> None:
        if not self._options.progress:
            return
        now, totals = time.perf_counter(), self._crew.totals()
        if now - self._printed_at > PROGRESS_S / 4:  # a line out of turn says the rate of the last one
            self._rate = (totals.sent - self._sent) / (now - self._printed_at)
            self._sent, self._printed_at = totals.sent, now
        line = {"type": "progress", "run": plan.run, "t": round(now - self._started, 3), **totals.as_json()}
        line |= {
            "rate": round(self._rate, 3),
            **self._changes.as_json(now - self._started, plan.scenario),
            **self._crew.health(),
            "capacity": self._crew.capacity(),
            "workers_lost": self._crew.lost(),
        }
        try:
            sys.stdout.write(orjson.dumps(line).decode() + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            self._abandon(plan)

    def _abandon(self, plan: Plan) -> None:
        """Whoever started the run and read its progress is dead: no orphan goes on loading a server."""
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for as long as the process lives
        print("loadgen: nobody reads the progress any more: the run stops", file=sys.stderr, flush=True)
        if self._plan is plan:
            gevent.spawn(self._end_locust)


def wishes_of(options: Any, host: str | None) -> Wishes:
    """The wishes in Locust's options, from its command line or its page."""
    given = options.set or []
    pairs = split_pairs(given) if isinstance(given, str) else given
    return Wishes(
        url=(host or "http://127.0.0.1:8000").rstrip("/"),
        scenario=options.scenario,
        pairs=tuple(pairs),
        seed=int(options.seed),
        model=options.model or None,
        run=options.run_id or None,
        out=options.out or None,
    )
