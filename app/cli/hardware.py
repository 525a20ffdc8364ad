"""`--hardware` of a simulation: a shipped cost model, a file, or `calibrated:RUN`; and `batchscope calibrate RUN`.

Knows where steps come from and what a fit is called; the fit itself is scheduler/runners/cost_model.py's.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.cli.failures import OK
from app.cli.records import Records, records
from app.cli.settings import server_settings
from app.cli.terminal import number, print_json, say, table
from scheduler.runners import cost_model
from scheduler.runners.cost_model import CALIBRATED, CostModel, Fit, Sample, StepShape


def add_calibrate(parser: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    """`calibrate RUN`."""
    parser.add_argument("run", metavar="RUN", help="id of a run whose steps are on record")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the cost model goes (default: RUN.json)")
    parser.set_defaults(act=calibrate)


def calibrate(options: argparse.Namespace) -> int:
    """Fit a cost model to the steps of a run, and say how well it tells those that it was not fitted to."""
    fit, left_out = fitted(records(server_settings(options), options.url), options.run)
    path: Path = options.out or Path(f"{options.run}.json")
    path.write_text(json.dumps(fit.as_json(), indent=1) + "\n", "utf-8")
    if options.json:
        print_json({"file": str(path), "left_out": left_out, **fit.as_json()["fit"]})
        return OK
    print(f"{path}: use it as --hardware {path} of `simulate`, or of `serve --runner simulated`\n")
    print(fit_text(fit))
    if left_out:
        say(f"{left_out} steps were left out: they held requests from before the run, or ended late")
    return OK


def fit_text(fit: Fit) -> str:
    """How well it tells the steps that it has not seen, by what they held."""
    rows = [
        {"regime": name, "n": error.fitted, "held": error.held_out, "mape": _percent(error.mape), "worst": _percent(error.p95)}
        for name, error in fit.errors.items()
    ]
    columns = [("regime", "steps that hold"), ("n", "fitted to"), ("held", "held out"), ("mape", "mean error")]
    return table(rows, [*columns, ("worst", "95 % are within")])


def fitted(source: Records, run_id: str) -> tuple[Fit, int]:
    """The fit, and how many steps were of no use. Raises SettingsError where there is too little to fit to."""
    found = source.shapes(run_id)
    life: Mapping[str, Any] = found["life"] or {}
    rows = zip(*(found["columns"][name] for name in ("decodes", "context", "chunks", "finishing", "ms")), strict=True)
    samples = [
        Sample(StepShape(decodes, context, tuple((c, p) for c, p in chunks), finishing), ms)
        for decodes, context, chunks, finishing, ms in rows
    ]
    memory = (life.get("blocks_total") or 0) * (life.get("block_size") or 0)
    about = {
        "id": f"{CALIBRATED}{run_id}",
        "gpu": life.get("hardware") or "the recorded machine",
        "model": life.get("model") or "?",
    }
    return cost_model.fit(samples, kv_capacity_tokens=memory, **about), found["left_out"]


def hardware(name: str | None, source: Records | None, replay: str | None) -> CostModel:
    """The cost model. Without a name: what the replayed run was simulated on, else a fit to that run, else the default."""
    if name is not None and not name.startswith(CALIBRATED):
        return cost_model.load(name)
    if name is None and (replay is None or source is None):
        return cost_model.load(cost_model.DEFAULT_HARDWARE)
    assert source is not None, "whoever names a run has records"
    run_id = replay if name is None else name.removeprefix(CALIBRATED)
    assert run_id is not None
    if name is None:
        known = (source.shapes(run_id)["life"] or {}).get("hardware")
        if known in cost_model.available():
            return cost_model.load(known)
    fit, _ = fitted(source, run_id)
    say(f"hardware: a cost model fitted to the steps of {run_id}\n{fit_text(fit)}")
    return fit.model


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{number(100 * share)} %"
