"""Past capacity: `python -m benchmarks.overload`. An open loop at 1, 2, 5 and 10 times what the server can serve.

capacity     first tokens a second while a burst is worked off: what the simulated hardware can do with these lengths
goodput      requests a second whose first token came within the SLO of when they were due; of those due after the warm-up
of_peak      goodput ÷ the best of the same admission at any load: `shed` must stay near 1, `bounded` collapses; of_capacity
             the same ÷ capacity. Shedding favours short prompts: with lengths far apart goodput rises with the load
refusal_ms   from sent to the status line, of the 503s
rss_mib      of the web process: before, its growth at the end of a run, and at most within it

Server, engine and clients are processes of their own. `late_ms` (sent − due, p99) says whether the generator kept up.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.measure import percentile, report  # noqa: E402
from benchmarks.rig.open_loop import Offer, Seen  # noqa: E402
from benchmarks.rig.server import Server, children  # noqa: E402

MIB = 1 << 20
WATCH_S = 0.05


@dataclass(frozen=True, slots=True)
class Shape:
    """The load's lengths and the bound on TTFT."""

    prompt: tuple[int, int]
    output: tuple[int, int]
    slo_s: float


class Memory:
    """The web process's resident memory while a run lasts."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._over = threading.Event()
        self.before = self.most = self.read()
        threading.Thread(target=self._watch, name="memory", daemon=True).start()

    def read(self) -> int:
        """Resident bytes now."""
        return int(Path(f"/proc/{self._pid}/statm").read_text().split()[1]) * 4096

    def _watch(self) -> None:
        while not self._over.wait(WATCH_S):
            self.most = max(self.most, self.read())

    def told(self) -> dict[str, float]:
        """MiB, at the end."""
        self._over.set()
        grown = self.read() - self.before
        values = {"before": self.before, "grown": grown, "most_grown": self.most - self.before}
        return {name: round(value / MIB, 1) for name, value in values.items()}


def offer(load: Offer) -> list[Seen]:
    """Run the loop in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.rig.open_loop"]
    ran = subprocess.run(command, cwd=ROOT, input=json.dumps(asdict(load)), capture_output=True, text=True, check=True)
    return [Seen(**row) for row in json.loads(ran.stdout)]


def capacity(seen: list[Seen]) -> float:
    """First tokens a second over the middle of a burst: ramp-up and ramp-down are left out."""
    firsts = sorted(one.first for one in seen if one.first is not None)
    low, high = len(firsts) // 5, len(firsts) * 4 // 5
    return (high - low) / (firsts[high] - firsts[low])


def figures(seen: list[Seen], load: Offer, slo_s: float, warm_s: float) -> dict[str, Any]:
    """What one run showed of the requests whose SLO could be met or missed within it."""
    due = [one for one in seen if warm_s <= one.due < load.seconds - slo_s]
    span = load.seconds - slo_s - warm_s
    refused = [one for one in due if one.status == 503]
    waits = [one.first - one.due for one in due if one.first is not None]
    good = sum(wait <= slo_s for wait in waits)
    answers = [(one.answered - one.sent) * 1e3 for one in refused if one.answered is not None]
    return {
        "offered": round(len(due) / span, 1),
        "goodput": round(good / span, 2),
        "late": round((len(waits) - good) / span, 2),
        "refused": round(len(refused) / span, 1),
        "unanswered": sum(not one.status for one in due),
        "other_statuses": sorted({one.status for one in due} - {0, 200, 503}),
        "retry_after_s": sorted({int(one.retry_after or -1) for one in refused}),
        "ttft_s": {"p50": round(percentile(waits, 0.5), 3), "p99": round(percentile(waits, 0.99), 3)} if waits else None,
        "refusal_ms": {name: round(percentile(answers, share), 1) for name, share in QUANTILES} if answers else None,
        "late_ms": round(percentile([(one.sent - one.due) * 1e3 for one in due], 0.99), 1),
    }


QUANTILES = (("p50", 0.5), ("p99", 0.99), ("max", 1.0))


def set_admission(server: Server, name: str) -> None:
    """Between two steps, live."""
    request = urllib.request.Request(
        server.url + "/api/scheduler",
        json.dumps({"admission": name}).encode(),
        {"Content-Type": "application/json"},
        method="PATCH",
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        response.read()


def settle(server: Server) -> None:
    """Until the hang-ups have been noticed and nothing is in flight."""
    while server.metrics()["requests_in_flight"]:
        time.sleep(0.1)


def measure(args: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """Capacity, then every load under each admission."""
    shape = Shape(tuple(args.prompt), tuple(args.output), args.slo_ms / 1000)
    sets = [f"max_num_seqs={args.slots}", f"max_num_batched_tokens={args.budget}", f"ttft_slo_ms={args.slo_ms}"]
    arguments = [word for each in sets for word in ("--set", each)]
    server = Server(directory, "--runner", "simulated", "--hardware", args.hardware, *arguments)
    try:
        model = server.get("/v1/models")["data"][0]["id"]
        place = {"url": server.url, "model": model, "prompt": shape.prompt, "output": shape.output}
        able = capacity(offer(Offer(rate=0.0, seconds=0.0, burst=args.burst, **place)))
        settle(server)
        rows = [row(server, name, times, able, shape, args, place) for name in args.admission for times in args.times]
    finally:
        server.stop()
    for name in args.admission:
        own = [each for each in rows if each["admission"] == name]
        peak = max(each["goodput"] for each in own)
        for each in own:
            each["of_peak"] = round(each["goodput"] / peak, 3)
            each["of_capacity"] = round(each["goodput"] / able, 3)
    return {"shape": asdict(shape) | {"slots": args.slots, "budget": args.budget}, "capacity": round(able, 2), "loads": rows}


def row(
    server: Server, admission: str, times: float, able: float, shape: Shape, args: argparse.Namespace, place: dict[str, Any]
) -> dict[str, Any]:
    """One load under one admission."""
    set_admission(server, admission)
    memory, engine = Memory(server.process.pid), children(server.process.pid)
    load = Offer(rate=times * able, seconds=args.seconds, seed=round(times * 10), **place)
    found = figures(offer(load), load, shape.slo_s, args.warm)
    settle(server)
    time.sleep(1.0)
    assert children(server.process.pid) == engine, "the engine was replaced during the run"
    return {"admission": admission, "times": times, **found, "rss_mib": memory.told()}


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hardware", default="h100-llama-3.1-8b-tp1-bf16")
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--budget", type=int, default=1024)
    parser.add_argument("--prompt", type=int, nargs=2, default=[1400, 1600], help="tokens, least and most")
    parser.add_argument("--output", type=int, nargs=2, default=[20, 120], help="tokens, least and most")
    parser.add_argument("--slo-ms", type=int, default=1000)
    parser.add_argument("--times", type=lambda text: [float(part) for part in text.split(",")], default=[0.9, 2.0, 5.0, 10.0])
    parser.add_argument("--admission", type=lambda text: text.split(","), default=["shed", "bounded"])
    parser.add_argument("--seconds", type=float, default=12.0, help="of one load")
    parser.add_argument("--warm", type=float, default=4.0, help="seconds of each that are not counted")
    parser.add_argument("--burst", type=int, default=200, help="requests that capacity is measured with")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report("overload", measure(args, Path(folder)))


if __name__ == "__main__":
    main()
