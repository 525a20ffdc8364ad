"""What serving costs around the engine: `python -m benchmarks.serving`. Server, clients and engine are processes of their own.

engine_share    steps/s of the engine under the whole server (API, writer, one dashboard) ÷ the engine alone over the pair;
                default model, 16 streams, all slots full. Both have their streams; one engine works while the other is stopped,
                in turns of a second (a b b a …), so that a machine whose speed drifts drifts under both; every value is shown
web_cpu         microseconds of the web process's CPU for each streamed token, on simulated hardware, recording and one
                dashboard on; streams outlive the window, so that requests' own cost is not in it. hub: its main thread
web_turnover    the same with answers of 128 tokens, so that requests begin and end all the time
ceiling         null runner: steps/s and tokens/s that get through everything, as fast as it goes
stalled         the time of a step on simulated hardware, p50 and p99, while 20 dashboards and 20 of 64 streams are not read,
                beside the same streams all read; memory that the web process gained. Pairs as above; the ratio is of the p99s
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.measure import floor_ms, progress, report  # noqa: E402
from benchmarks.rig import stalled as stalling  # noqa: E402
from benchmarks.rig.lone_engine import LoneEngine  # noqa: E402
from benchmarks.rig.server import Server, children, cpu_s  # noqa: E402
from benchmarks.rig.turns import steps_s, take_turns  # noqa: E402
from scheduler.runners.torch_runner.weights import ensure  # noqa: E402
from scheduler.settings import ModelSettings  # noqa: E402

PROMPT = 32
SLOTS = 16  # of the default settings on a CPU
LONG = 360  # output tokens of a stream that outlives its window: 16 of them fit the default KV memory
ENDLESS = 30_000
SHORT = 128
SETTLE_S = 1.0
TURN_S = 1.0
STALLED, READ_OR_NOT = 20, 64  # readers that stop, of so many


class Clients:
    """The readers' process; see rig/readers.py."""

    def __init__(self, url: str) -> None:
        command = [sys.executable, "-m", "benchmarks.rig.readers", url]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say(self, **command: Any) -> dict[str, Any]:
        """One command; its answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the clients ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def open(self, streams: int, tokens: int) -> None:
        """Keep so many streams open."""
        self.say(open=streams, prompt_tokens=PROMPT, max_tokens=tokens)

    def close(self) -> None:
        """Hang up and end."""
        self._process.communicate(timeout=20)


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters of one instant."""

    at: float
    tokens: int
    steps: float
    web_s: float
    hub_s: float
    engine_s: float
    clients_s: float
    frames: int
    cut: int

    @classmethod
    def of(cls, server: Server, clients: Clients) -> Reading:
        """Read them all; what reading costs is before or after, not between."""
        steps = server.metrics()["steps_total"]
        told = clients.say(count=True)
        engine = sum(cpu_s(pid) for pid in children(server.process.pid))
        hub = server.threads_cpu_s()[0]
        now = time.perf_counter()
        return cls(now, told["tokens"], steps, server.cpu_s(), hub, engine, told["cpu_s"], told["frames"], told["cut"])


def window(server: Server, clients: Clients, streams: int, tokens: int, seconds: float) -> dict[str, float]:
    """Open the streams, let them settle, and compare two readings."""
    clients.open(streams, tokens)
    time.sleep(SETTLE_S)
    before = Reading.of(server, clients)
    time.sleep(seconds)
    after = Reading.of(server, clients)
    clients.say(close=True)
    while server.metrics()["num_requests_running"]:
        time.sleep(0.05)
    took, tokens_sent = after.at - before.at, after.tokens - before.tokens
    web = after.web_s - before.web_s
    return {
        "streams": streams,
        "us_per_token": round(web / tokens_sent * 1e6, 2),
        "hub_us_per_token": round((after.hub_s - before.hub_s) / tokens_sent * 1e6, 2),
        "tokens_s": round(tokens_sent / took, 1),
        "steps_s": round((after.steps - before.steps) / took, 1),
        "web_cores": round(web / took, 3),
        "engine_cores": round((after.engine_s - before.engine_s) / took, 3),
        "clients_cores": round((after.clients_s - before.clients_s) / took, 3),
        "cut_off": after.cut - before.cut,
        "frames_s": round((after.frames - before.frames) / took, 1),
        "floor_ms": floor_ms(1),
    }


def medians(rows: list[dict[str, float]]) -> dict[str, Any]:
    """The median of each column, and every value of the first figure."""
    middle: dict[str, Any] = {name: round(statistics.median(row[name] for row in rows), 3) for name in rows[0]}
    return middle | {"all_us_per_token": [row["us_per_token"] for row in rows]}


def web_cpu(args: argparse.Namespace, directory: Path, tokens: int) -> list[dict[str, Any]]:
    """(b), every number of streams in each round."""
    most = max(args.streams)
    arguments = ["--runner", "simulated", "--hardware", args.hardware, "--set", f"max_num_seqs={most}"]
    arguments += ["--set", f"max_num_batched_tokens={max(8192, most)}", "--set", "max_num_queued_reqs=4096"]
    return _rounds(args, directory, arguments, args.streams, tokens)


def ceiling(args: argparse.Namespace, directory: Path) -> list[dict[str, Any]]:
    """(c)"""
    slots = max(args.ceiling_streams)
    arguments = ["--runner", "null", "--set", f"max_num_seqs={slots}", "--set", f"max_num_batched_tokens={max(2048, slots)}"]
    arguments += ["--set", f"kv_cache_tokens={min(slots * 8192, 1 << 24)}"]
    return _rounds(args, directory, arguments, args.ceiling_streams, 2000)


def _rounds(
    args: argparse.Namespace, directory: Path, arguments: list[str], numbers: list[int], tokens: int
) -> list[dict[str, Any]]:
    server = Server(directory, *arguments)
    found: dict[int, list[dict[str, float]]] = {streams: [] for streams in numbers}
    try:
        clients = Clients(server.url)
        for _ in range(args.rounds):
            for streams in numbers:
                found[streams].append(window(server, clients, streams, tokens, args.seconds))
        clients.close()
    finally:
        server.stop()
    return [medians(rows) for rows in found.values()]


def engine_share(args: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """(a): two engines, only one of them has work at a time."""
    model = ModelSettings(cache_dir=str(args.cache.resolve()))
    ensure(model, lambda text, done, total: None)
    (directory / "models").parent.mkdir(parents=True, exist_ok=True)
    (directory / "models").symlink_to(args.cache.resolve())
    server = Server(directory)
    try:
        alone, clients = LoneEngine(model, {}), Clients(server.url)
        pairs = list(_share(alone, server, clients, args))
        clients.close()
        alone.stop()
    finally:
        server.stop()
    ratios = [pair["served"] / pair["alone"] for pair in pairs]
    return {"streams": SLOTS, "pairs": pairs, "ratios": [round(r, 4) for r in ratios], "ratio": statistics.median(ratios)}


def stalled(args: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """(d): windows with and without readers that stop."""
    server = Server(directory, "--runner", "simulated", "--hardware", args.hardware, "--set", f"max_num_seqs={READ_OR_NOT}")
    pairs: list[dict[str, dict[str, float]]] = []
    try:
        clients = Clients(server.url)
        stalling.window(server, clients, READ_OR_NOT, 0, SETTLE_S, ENDLESS)  # the first streams of a server load what it needs
        for turn in range(args.pairs):
            order = {"read": 0, "stalled": STALLED} if turn % 2 == 0 else {"stalled": STALLED, "read": 0}
            pairs.append(
                {name: stalling.window(server, clients, READ_OR_NOT, n, args.seconds, ENDLESS) for name, n in order.items()}
            )
        clients.close()
    finally:
        server.stop()
    ratios = [round(pair["stalled"]["p99_ms"] / pair["read"]["p99_ms"], 4) for pair in pairs]
    growth = max(pair["stalled"]["memory_growth_mib"] for pair in pairs)
    return {"pairs": pairs, "p99_ratios": ratios, "p99_ratio": statistics.median(ratios), "memory_growth_mib": growth}


def _share(alone: LoneEngine, server: Server, clients: Clients, args: argparse.Namespace) -> Iterator[dict[str, float]]:
    """Pair by pair; who is first alternates."""
    for turn in range(args.pairs):
        progress(f"engine_share: pair {turn + 1} of {args.pairs}")
        yield {"floor_ms": floor_ms(1), **_pair(alone, server, clients, args.turns, first=turn % 2)}


def _pair(alone: LoneEngine, server: Server, clients: Clients, turns: int, first: int) -> dict[str, float]:
    """Steps/s with every slot decoding, of the lone engine and of the served one, over so many turns of each."""
    (served,) = children(server.process.pid)
    alone.submit(SLOTS, PROMPT, LONG)
    clients.open(SLOTS, LONG)
    turned = take_turns({"alone": alone.pid, "served": served}, turns, TURN_S, first)
    alone.abort()
    clients.say(close=True)
    while server.metrics()["num_requests_running"]:
        time.sleep(0.05)
    steps = {"alone": alone.steps, "served": server.steps()}
    return {name: round(steps_s(steps[name], turned[name], SLOTS), 3) for name in turned}


PARTS = ("engine_share", "web_cpu", "web_turnover", "ceiling", "stalled")


def main() -> None:
    """Parse, measure, print."""
    numbers = lambda text: [int(part) for part in text.split(",")]  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS), help="parts, with commas")
    parser.add_argument(
        "--no-torch", action="store_true", help="leave engine_share out: it needs torch and the model's weights"
    )
    parser.add_argument("--cache", type=Path, default=ROOT / "data" / "models", help="where the model's weights are kept")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--turns", type=int, default=8, help="turns of each half of a pair, a second each")
    parser.add_argument("--streams", type=numbers, default=[1, 32, 256, 512])
    parser.add_argument("--ceiling-streams", type=numbers, default=[1, 16, 256])
    parser.add_argument("--hardware", default="h100-llama-3.1-8b-tp1-bf16")
    parser.add_argument("--seconds", type=float, default=4.0, help="of one window")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    parts: dict[str, Callable[[Path], Any]] = {
        "engine_share": lambda directory: engine_share(args, directory),
        "web_cpu": lambda directory: web_cpu(args, directory, ENDLESS),
        "web_turnover": lambda directory: web_cpu(args, directory, SHORT),
        "ceiling": lambda directory: ceiling(args, directory),
        "stalled": lambda directory: stalled(args, directory),
    }
    wanted = [name for name in PARTS if name in args.only and not (args.no_torch and name == "engine_share")]
    with tempfile.TemporaryDirectory() as folder:
        figures = {}
        for name in wanted:
            progress(name)
            figures[name] = parts[name](Path(folder) / name)
    report("serving", figures)


if __name__ == "__main__":
    main()
