"""What the pages cost in headless Chromium: `python -m benchmarks.dashboard [PART…]`. One function a part.

gantt: the timeline's bars (500 to 50,000) made, appended to with everything drawn anew, panned and hovered. Times are ms of
synchronous script, so without the raster, which the time between two frames of a pan holds. The goal is 7 ms a redraw of
10,000 bars.
live: the live page under a steady load on simulated hardware, 600 steps in view, `--updates` of them (3,000; they take five
minutes): ms of an update and of the main thread per 100 ms, a step's end to its pixels, the heap after forced collections.
Goals: 10 ms, 200 ms at p95, a flat heap.
paint: visits to it, first and second, in turn with a page of one word and no file as the floor: the goal is 300 ms to the first
paint, which a host that is busy reads as so much over the floor.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.measure import percentile, progress, report  # noqa: E402
from benchmarks.rig.watched_page import first_paint, watch  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
BARS = {500: 82, 2_000: 157, 10_000: 450, 50_000: 2_092}  # bars → lanes
HEAPS = 6  # collections during `live`, beside the one before
VISITS = 9
BENCH = ROOT / "benchmarks" / "rig" / "gantt.js"
PAGE = """<!doctype html><html data-theme="light"><link rel="stylesheet" href="/css/base.css">
<div class="plot"><canvas></canvas></div></html>"""


class Files(SimpleHTTPRequestHandler):
    """static/ as it is, and a page with one canvas."""

    def do_GET(self) -> None:
        """The page, the benchmark's script, or a file of static/."""
        if self.path == "/":
            self._answer("text/html; charset=utf-8", PAGE.encode())
        elif self.path == f"/{BENCH.name}":
            self._answer("text/javascript", BENCH.read_bytes())
        else:
            super().do_GET()

    def _answer(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Not a word: stdout is the report's."""


@contextmanager
def files() -> Iterator[str]:
    """The URL of a server of static files on a free port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(ROOT / "static")))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def gantt(browser: Browser, args: argparse.Namespace) -> dict[str, Any]:
    """The timeline's bars, a page for each number of them."""
    found = {}
    with files() as url:
        for bars, lanes in ((bars, BARS[bars]) for bars in args.bars):
            progress(f"gantt: {bars} bars")
            page = browser.new_page(viewport={"width": 1280, "height": 960})
            page.goto(url)
            told = page.evaluate(f"async ([n, lanes]) => (await import('/{BENCH.name}')).measure(n, lanes)", [bars, lanes])
            found[str(bars)] = {
                "lanes": lanes,
                "create_ms": round(told["create"], 1),
                **spread("append_redraw_ms", told["append"]),
                **spread("pan_ms", told["pan"]),
                **spread("pan_frame_ms", told["between"]),
                **spread("pan_zoomed_ms", told["zoomed"]),
                "hover_us": round(told["hover_us"], 2),
            }
            page.close()
    return found


def spread(name: str, values: list[float]) -> dict[str, float]:
    """p50 and p95."""
    return {f"{name}_p{share}": round(percentile(values, share / 100), 2) for share in (50, 95)}


def live(browser: Browser, args: argparse.Namespace) -> dict[str, Any]:
    """The live page under load."""
    return watch(browser, args.updates, HEAPS)


def paint(browser: Browser, _args: argparse.Namespace) -> dict[str, Any]:
    """Visits to the live page."""
    return first_paint(browser, VISITS)


PARTS: dict[str, Callable[[Browser, argparse.Namespace], dict[str, Any]]] = {"gantt": gantt, "live": live, "paint": paint}


def main() -> None:
    """One JSON object: the parts asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (default: all)")
    parser.add_argument("--bars", type=int, choices=BARS, nargs="+", default=list(BARS), help="of the timeline (default: all)")
    parser.add_argument("--updates", type=int, default=3_000, help="of the live page (default: 3000)")
    args = parser.parse_args()
    if unknown := set(args.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        figures = {}
        for name in args.parts or PARTS:
            progress(name)
            figures[name] = PARTS[name](browser, args)
        report("dashboard", figures)
        browser.close()


if __name__ == "__main__":
    main()
