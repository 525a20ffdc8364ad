"""What the pages read of an answer is in it, and is listed; what is gone is said by name, never drawn as nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from case_records import CaseServer
from page_walk import Seen, look, settle
from playwright.sync_api import Page, Route, expect
from simulated_records import RUN

OpenPage = Callable[..., Page]
# Every answer notes what a page reads of it: "path.name", lists as "[]"; "absent" where it has no such name.
# The path's ids are ID; what stands in a dict of reasons, tenants or figures comes and goes with the data.
NOTES = """(() => {
  const reads = (window.reads = {});
  const known = new WeakMap(); // the same object is the same to the page, too
  const wrap = (value, path) => {
    if (value === null || typeof value !== "object") return value;
    if (!known.has(value)) known.set(value, noting(value, path));
    return known.get(value);
  };
  const noting = (value, path) => new Proxy(value, {
    get(target, name) {
      const found = Reflect.get(target, name);
      if (typeof name === "symbol" || (found !== undefined && !Object.hasOwn(target, name))) return found;
      if (Array.isArray(target)) return wrap(found, `${path}[]`);
      reads[`${path}.${name}`] = Object.hasOwn(target, name) ? "read" : "absent";
      return wrap(found, `${path}.${name}`);
    },
  });
  const { text } = Response.prototype;
  const { parse } = JSON;
  const heard = new Map(); // the text of an answer → where it is from
  Response.prototype.text = async function () {
    const path = new URL(this.url).pathname.replace(/(runs|requests)\\/(run_|req_)[\\w-]+/, "$1/ID");
    const said = await text.call(this);
    if (this.ok) heard.set(said, path);
    return said;
  };
  JSON.parse = (said, ...rest) => {
    const path = heard.get(said);
    return path ? wrap(parse(said, ...rest), path) : parse(said, ...rest);
  };
})()"""
OPTIONAL = re.compile(
    r"\.(then|toJSON|computing|choices|unit|rate_changes|capacity)$|\.waits\.|\.asked\.params\.|\.percentiles\.(client|server)\.|\.holders\[\]\.prefill$"
    r"|/api/compare\.(runs\[\]\.(side|since|until)|sentence)$|\.policy_params\.|\.boots\."
)
LISTED = """async () => {
  const { gone, goneOf } = await import("/static/js/fields.js");
  return Object.fromEntries(["/api/runs", "/api/runs/ID/report", "/api/compare", "/api/requests", "/api/requests/fields",
    "/api/requests/facets", "/api/requests/spread", "/api/requests/ID", "/api/steps", "/api/segments", "/api/scheduler",
    "/api/scheduler/changes", "/api/scenarios", "/api/sql/schema", "snapshot", "gauges", "steps", "segments",
  ].map((place) => [place, gone(place, {})]));
}"""


def paths(cases: CaseServer) -> list[str]:
    """Every page, with data."""
    return [
        "/", f"/timeline?run={RUN}", "/load", "/runs", f"/runs/{RUN}", f"/runs/{cases.seen}", f"/requests?run={RUN}",
        f"/compare?runs={RUN},{cases.seen}", f"/compare?runs={RUN}&split=0.5s", f"/requests/{cases.preempted}",
        "/policy", "/lesson", "/sql?q=SELECT+id,+tenant,+ttft_ms+FROM+requests",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def walked(cases: CaseServer, browser: Any) -> tuple[dict[str, Seen], dict[str, str]]:
    """Every page as it is with data, and what all of them read."""
    page, seen, reads = browser.new_page(), {}, dict[str, str]()
    page.add_init_script(NOTES)
    for path in paths(cases):
        seen[path] = look(page, cases.url + path)
        reads |= {name: how for name, how in page.evaluate("reads").items() if reads.get(name) != "absent"}
    page.close()
    return seen, reads


def test_every_field_that_a_page_reads_is_in_the_answer(walked: tuple[dict[str, Seen], dict[str, str]]) -> None:
    _, reads = walked
    assert len(reads) > 300
    assert [name for name, how in reads.items() if how == "absent" and not OPTIONAL.search(name)] == []


def test_every_field_that_a_page_reads_is_listed(
    cases: CaseServer, open_page: OpenPage, walked: tuple[dict[str, Seen], dict[str, str]]
) -> None:
    page = open_page()
    page.goto(f"{cases.url}/lesson")
    listed = page.evaluate(LISTED)
    first = {tuple(name.split(".", 1)) for name in walked[1] if not OPTIONAL.search(name) and name.count(".") == 1}
    unlisted = [(place, name) for place, name in sorted(first) if place in listed and name not in listed[place]]
    assert unlisted == []
    live = cases.live.get("/api/live")
    assert set(listed["snapshot"]) <= set(live) and set(listed["gauges"]) <= set(live["gauges"])
    assert set(listed["steps"]) <= set(live["steps"]) and set(listed["segments"]) <= set(live["segments"])


def test_pages_with_data_fit_every_window_and_tell_their_canvases(walked: tuple[dict[str, Seen], dict[str, str]]) -> None:
    seen, _ = walked
    assert {path: page.beyond for path, page in seen.items() if max(page.beyond.values()) > 0} == {}
    canvases = [(path, each) for path, page in seen.items() for each in page.canvases]
    assert len(canvases) >= 20
    bare = [(path, each) for path, each in canvases if each["role"] != "img" or not each["label"].strip() or not each["table"]]
    assert bare == []
    assert {path: raw for path, page in seen.items() if (raw := page.raw_words(null_runner=True))} == {}


GONE = {
    "/timeline?run={run}": ("**/api/segments?*", "total"),
    "/runs": ("**/api/runs?*", "items.verdict"),
    "/runs/{run}": ("**/api/runs/*/report", "percentiles"),
    "/compare?runs={run},{seen}": ("**/api/compare?*", "metrics"),
    "/requests?run={run}": ("**/api/requests?*", "items.ttft_ms"),
    "/requests/{request}": ("**/api/requests/run_*", "waits"),
    "/policy": ("**/api/scheduler", "table.unit"),
    "/sql": ("**/api/sql/schema", "bounds"),
}


def test_a_field_that_is_gone_is_named_in_place_of_an_empty_chart(cases: CaseServer, open_page: OpenPage) -> None:
    page = open_page()
    for pattern, (asked, field) in GONE.items():
        outer, _, inner = field.partition(".")
        page.route(asked, renaming_answer(outer, inner))
        page.goto(cases.url + pattern.format(run=RUN, seen=cases.seen, request=cases.preempted))
        said = f"field gone: {outer}[].{inner}" if inner else f"field gone: {outer}."
        expect(page.locator("main .error").first, pattern).to_contain_text(said)
        page.unroute(asked)
        again = page.get_by_role("button", name="Try again")
        again.evaluate_all("shown => shown[0]?.click()")  # at once: a page that asks again by itself takes it away
        expect(page.locator("main"), pattern).not_to_contain_text("field gone")
        settle(page)


def test_a_figure_that_is_gone_from_the_live_snapshot_is_named(cases: CaseServer, open_page: OpenPage) -> None:
    page = open_page()
    page.route_web_socket("**/socket.io/**", lambda socket: renaming(socket))
    page.goto(cases.url)
    expect(page.locator("#link")).to_contain_text("field gone: gauges.waiting.")


def renaming_answer(outer: str, inner: str) -> Callable[[Route], None]:
    """Answers in which a name, or one in the rows of a list, is another."""

    def rename(route: Route) -> None:
        answer = route.fetch().json()
        for where in answer[outer] if inner else [answer]:
            where["renamed"] = where.pop(inner or outer)
        route.fulfill(json=answer)

    return rename


def renaming(socket: Any) -> None:
    """A line on which a gauge has another name."""
    server = socket.connect_to_server()
    server.on_message(lambda text: socket.send(text.replace('"waiting":0', '"queued":0', 1) if '"snapshot"' in text else text))
