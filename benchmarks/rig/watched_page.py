"""A live page in Chromium under steady load, measured while it draws: `watch` and `first_paint`. Judges nothing.

The server runs on simulated hardware and is fed by an open loop in a process of its own. Main-thread time is Chromium's own sum
of tasks (TaskDuration, by the thread's clock); forced collections lie between the windows that it is summed over. A step's
latency is the wall time between its end on the server's clock and the frame after the one in which its bar was drawn: both
processes share the clock.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, CDPSession

from benchmarks.measure import percentile
from benchmarks.rig.open_loop import Offer
from benchmarks.rig.server import Server

HARDWARE = "h100-llama-3.1-8b-tp1-bf16"
LIMITS = ("max_num_seqs=32", "max_num_batched_tokens=512", "kv_cache_tokens=12288", "max_model_len=2048")
SCRIPT = Path(__file__).with_suffix(".js").read_text("utf-8")
WARM_S = 65.0  # until 600 steps are in view and a minute of bars, which is all that the page keeps
RATE = 20.0  # within what simulated steps can serve on a busy host, too: a queue that grows is a heap that grows
PROMPT, OUTPUT = (30, 400), (20, 120)
Figures = dict[str, Any]


@contextmanager
def serving() -> Iterator[Server]:
    """A server that nobody asks for anything yet."""
    limits = [part for limit in LIMITS for part in ("--set", limit)]
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder), "--runner", "simulated", "--hardware", HARDWARE, *limits)
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def loaded(seconds: float) -> Iterator[Server]:
    """A server under a steady load, for `seconds` at least."""
    with serving() as server:
        model = server.get("/v1/models")["data"][0]["id"]
        offer = Offer(server.url, model, rate=RATE, seconds=seconds, prompt=PROMPT, output=OUTPUT)
        command = [sys.executable, "-m", "benchmarks.rig.open_loop"]
        load = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        try:
            assert load.stdin is not None
            load.stdin.write(json.dumps(asdict(offer)))
            load.stdin.close()
            yield server
        finally:
            load.kill()
            load.wait()


def watch(browser: Browser, updates: int, windows: int) -> Figures:
    """`updates` of the page in `windows` equal parts, the heap after each."""
    with loaded(WARM_S + 60 + updates * 0.2) as server:
        page = browser.new_page(viewport={"width": 1280, "height": 960})
        page.add_init_script(SCRIPT)
        page.goto(server.url)
        time.sleep(WARM_S)
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        heap, parts = [_collected(page, session)], []
        for _ in range(windows):
            parts.append(_window(server, page, session, updates // windows))
            heap.append(_collected(page, session))
        page.close()
    return _summed(parts) | {"heap": heap}


def _window(server: Server, page: Any, session: CDPSession, updates: int) -> Figures:
    page.evaluate("noted()")
    began, busy, first = time.monotonic(), _busy_s(session), server.get("/api/live")
    draws, shown = list[float](), list[tuple[int, float]]()
    while len(shown) < updates:
        time.sleep(1.0)
        told = page.evaluate("noted()")
        draws += told["draws"]
        shown += [(step, at) for step, at in told["shown"]]
    seconds, busy = time.monotonic() - began, _busy_s(session) - busy
    last = server.get("/api/live")
    ended = _ended(server, last["boot"], first["seq"], last["seq"], last["wall_ms"])
    return {
        "seconds": seconds,
        "busy": busy,
        "draws": draws,
        "updates": len(shown),
        "latency": _latencies(ended, shown),
        "steps": len(ended),
    }


def _ended(server: Server, boot: int, first: int, last: int, wall_ms: float) -> dict[int, float]:
    """Step → wall ms of its end, from the records."""
    found: dict[int, float] = {}
    while first < last:
        answer = server.get(f"/api/steps?boot={boot}&from_seq={first + 1}&to_seq={last}")
        steps = answer["steps"]
        found |= {step: wall_ms + t for step, t in zip(steps["step"], steps["t"], strict=True)}
        first = steps["seq"][-1] if answer["truncated"] else last
    return found


def _latencies(ended: dict[int, float], shown: list[tuple[int, float]]) -> list[float]:
    """ms until the first drawing that reached each step."""
    newest = [step for step, _ in shown]
    places = [(bisect_left(newest, step), end) for step, end in ended.items() if step > newest[0]]
    return [shown[place][1] - end for place, end in places if place < len(shown)]


def _summed(parts: list[Figures]) -> Figures:
    seconds = sum(part["seconds"] for part in parts)
    draws = [each for part in parts for each in part["draws"]]
    latency = [each for part in parts for each in part["latency"]]
    updates = sum(part["updates"] for part in parts)
    return {
        "updates": updates,
        "updates_a_second": round(updates / seconds, 2),
        "steps_a_second": round(sum(part["steps"] for part in parts) / seconds, 1),
        "main_thread_ms_per_100_ms": round(100 * sum(part["busy"] for part in parts) / seconds, 2),
        "main_thread_ms_per_100_ms_by_window": [round(100 * part["busy"] / part["seconds"], 2) for part in parts],
        "update_ms": {f"p{share}": round(percentile(draws, share / 100), 2) for share in (50, 95, 99)},
        "step_to_pixel_ms": {f"p{share}": round(percentile(latency, share / 100), 1) for share in (50, 95, 99)},
    }


def _busy_s(session: CDPSession) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(float(each["value"]) for each in metrics if each["name"] == "TaskDuration")


def _collected(page: Any, session: CDPSession) -> Figures:
    """MiB of the script heap after a forced collection, and the bars that the timeline drew last, which most of it holds."""
    session.send("HeapProfiler.collectGarbage")
    used = float(session.send("Runtime.getHeapUsage")["usedSize"]) / (1 << 20)
    drawn = page.get_attribute("#timeline canvas", "aria-label")
    return {"mib": round(used, 2), "bars": int(str(drawn).split()[2].replace(",", ""))}


def first_paint(browser: Browser, visits: int) -> Figures:
    """Of Live, server at rest, cold cache and warm: ms to the first paint and to the first figures, and what was fetched.

    In turn with them the floor: a word of the same server without a file, which is what this browser costs on this host now.
    """
    found: dict[str, list[Figures]] = {"floor": [], "cold": [], "warm": []}
    with serving() as server:
        for _ in range(visits):
            context = browser.new_context(viewport={"width": 1280, "height": 960})
            for name, seen in found.items():
                page = context.new_page()
                page.add_init_script(SCRIPT)
                page.goto(server.url + ("/livez" if name == "floor" else ""), wait_until="commit")
                seen.append(page.evaluate(f"visited({json.dumps(name != 'floor')})"))
                page.close()
            context.close()
    return {name: _visits(each) for name, each in found.items()}


def _visits(visits: list[Figures]) -> Figures:
    middle = {name: percentile([visit[name] for visit in visits], 0.5) for name in ("paint", "figures", "files", "bytes")}
    return {
        "first_paint_ms": round(middle["paint"], 1),
        "first_paint_ms_all": [round(visit["paint"], 1) for visit in visits],
        "first_figures_ms": round(middle["figures"], 1),
        "files": round(middle["files"]),
        "kB": round(middle["bytes"] / 1000, 1),
    }
