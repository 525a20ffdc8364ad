"""The plan of one run, as the first process of it makes it and the others receive it. Knows no Locust.

Invariant: a plan is JSON both ways, and two processes with the same plan draw the same requests.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import orjson

from loadgen.library import load
from loadgen.params import parse_pairs
from loadgen.scenario import Scenario
from loadgen.session import Job, Share
from loadgen.target import Model, Target
from loadgen.workload import Limits


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line or the form asks for."""

    url: str
    scenario: str
    pairs: tuple[str, ...] = ()
    seed: int = 1
    model: str | None = None
    run: str | None = None
    out: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Wishes made definite. `external`: we registered the run, so we close it. `known`: the server keeps runs.

    started_wall: epoch seconds of the run's instant 0; shares: which process takes which part, by its name.
    """

    wishes: Wishes
    run: str
    external: bool
    known: bool
    model: Model
    started_wall: float
    shares: Mapping[str, int]

    @property
    def scenario(self) -> Scenario:
        return load(self.wishes.scenario, parse_pairs(self.wishes.pairs))

    def job(self, process: str) -> Job | None:
        """The part of the process of that name; None if it joined too late to have one."""
        index = self.shares.get(process)
        if index is None:
            return None
        started = time.perf_counter() + (self.started_wall - time.time())
        # The nonce is the run's name: prompts repeat for a replay of that run, and for no other.
        share = Share(index, len(self.shares))
        return Job(self.scenario, self.run, self.wishes.seed, self.run, self.model, share, started)

    def encode(self) -> str:
        return orjson.dumps(asdict(self)).decode()

    @staticmethod
    def decode(text: str) -> Plan:
        data = orjson.loads(text)
        wishes, model = data["wishes"], data["model"]
        return Plan(
            wishes=Wishes(**{**wishes, "pairs": tuple(wishes["pairs"])}),
            run=data["run"],
            external=data["external"],
            known=data["known"],
            model=Model(model["id"], Limits(**model["limits"])),
            started_wall=data["started_wall"],
            shares=data["shares"],
        )


def make(wishes: Wishes, target: Target, processes: Sequence[str], head_start_s: float = 0.0) -> Plan:
    """Ask the server for its model and, unless a run is named, register one; a server without runs is loaded all the same.

    Raises ScenarioError or TargetError. The clock of the run starts `head_start_s` from now.
    """
    scenario = load(wishes.scenario, parse_pairs(wishes.pairs))
    model = target.model(wishes.model)
    run, external, known = wishes.run, False, True
    if run is None:
        run = target.register(_registration(wishes, scenario))
        external = known = run is not None
    return Plan(
        wishes=wishes,
        run=run or f"local-{uuid.uuid4().hex[:12]}",
        external=external,
        known=known,
        model=model,
        started_wall=time.time() + head_start_s,
        shares={process: index for index, process in enumerate(processes)},
    )


def _registration(wishes: Wishes, scenario: Scenario) -> dict[str, object]:
    wanted = {"scheduler": dict(scenario.scheduler)} if scenario.scheduler else {}
    return {
        **wanted,
        "external": True,
        "name": scenario.title,
        "scenario": scenario.name,
        "set": dict(scenario.values),
        "seed": wishes.seed,
    }


def write_run_file(plan: Plan, extra: Mapping[str, object]) -> None:
    """DIR/run.json: what was run, beside what was seen."""
    if plan.wishes.out is None:
        return
    started = datetime.fromtimestamp(plan.started_wall, UTC).isoformat()
    data = {
        "run": plan.run,
        "url": plan.wishes.url,
        "seed": plan.wishes.seed,
        "model": plan.model.id,
        "started": started,
        "processes": len(plan.shares),
        "scenario": plan.scenario.as_json(),
        **extra,
    }
    folder = Path(plan.wishes.out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_bytes(orjson.dumps(data, option=orjson.OPT_INDENT_2))
