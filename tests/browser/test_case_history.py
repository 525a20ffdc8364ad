"""What is over stays as it was, whoever looks and when; a link shows its sender's rows; an export is the set shown."""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from case_records import EVIL, TENANTS, CaseServer
from page_walk import settle
from playwright.sync_api import Page, expect
from simulated_records import RUN

OpenPage = Callable[..., Page]
HOUR = 3600
MANY = 30_000
PICTURES = '() => [...document.querySelectorAll("canvas")].map((canvas) => canvas.toDataURL())'


def over(cases: CaseServer) -> list[str]:
    """Answers about what has ended."""
    of = f"run={RUN}"
    return [
        f"/api/runs/{RUN}/report", f"/api/runs/{RUN}/report.html", f"/api/runs/{cases.seen}/report", f"/api/segments?{of}",
        f"/api/steps?{of}", f"/api/requests?{of}", f"/api/export/requests.csv?{of}", f"/api/export/requests.jsonl?{of}",
        f"/api/export/trace.json?{of}", f"/api/compare?runs={RUN},{cases.seen}", f"/api/requests/{cases.preempted}",
    ]  # fmt: skip


def fetched(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return bytes(answer.read())


def shown(page: Page, url: str) -> tuple[list[str], str]:
    """The pictures and the words of a page once they stand still."""
    page.goto(url)
    settle(page)
    page.wait_for_load_state("networkidle")
    found = None
    while found != (found := (page.evaluate(PICTURES), page.locator("main").inner_text())):
        page.wait_for_timeout(150)
    return found


def test_after_the_end_two_answers_are_the_same_bytes_and_no_time_goes_on(cases: CaseServer, open_page: OpenPage) -> None:
    before = {path: fetched(cases.url + path) for path in over(cases)}
    page = open_page()
    page.clock.install()
    for path in (f"/timeline?run={cases.seen}", f"/timeline?run={RUN}", f"/runs/{cases.seen}"):
        then = shown(page, cases.url + path)
        asked: list[str] = []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.clock.fast_forward(60_000)
        page.wait_for_timeout(400)
        assert asked == [], path
        assert (page.evaluate(PICTURES), page.locator("main").inner_text()) == then, path
    differing = [path for path in over(cases) if fetched(cases.url + path) != before[path]]
    assert differing == []
    segments, steps = (json.loads(before[f"/api/{name}?run={RUN}"]) for name in ("segments", "steps"))
    life = steps["boots"][str(steps["steps"]["boot"][-1])]
    end = life["wall_ms"] - segments["start_ms"] + steps["steps"]["t"][-1]
    assert max(segments["segments"]["t1"]) == pytest.approx(end, abs=0.01), "no bar is open, none goes on beyond the last step"


def test_nothing_is_changed_by_a_get(cases: CaseServer) -> None:
    acts = [f"/api/scheduler/{what}" for what in ("pause", "resume", "step")]
    acts += [f"/api/runs/{cases.seen}/{what}" for what in ("stop", "rate", "report/stop", "client_requests")]
    for path in acts:
        with pytest.raises(urllib.error.HTTPError, match="405") as caught:
            fetched(cases.url + path)
        caught.value.close()
    assert cases.live.get("/api/scheduler")["paused"] is False


def test_the_browsers_clock_moves_no_point_and_no_time(cases: CaseServer, open_page: OpenPage) -> None:
    right, fast = open_page(), open_page()
    fast.clock.install(time=time.time() + HOUR)
    for path in (f"/timeline?run={RUN}", f"/runs/{cases.seen}", f"/requests?run={RUN}", "/"):
        assert shown(fast, cases.url + path) == shown(right, cases.url + path), path
    assert fast.evaluate("Date.now()") > right.evaluate("Date.now()") + 0.9 * HOUR * 1000


def test_markup_of_others_is_text_on_every_page_in_tips_and_in_files(cases: CaseServer, open_page: OpenPage) -> None:
    page, dialogs = open_page(), list[str]()
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    search = f'run:{RUN} tenant:"{EVIL}"'
    evil = f"/requests?q={quote(search)}"
    wanted = {
        "/runs": 2, f"/runs/{RUN}": 2, f"/runs/{cases.seen}": 2, f"/compare?runs={RUN},{cases.seen}": 2, "/load": 1,
        f"/timeline?run={RUN}&rows=tenant": 1, f"/requests?run={RUN}": 2, f"/requests/{cases.preempted}": 1, evil: 1,
        f"/sql?q={quote('SELECT tenant FROM requests')}": 1,
    }  # fmt: skip
    for path, least in wanted.items():
        page.goto(cases.url + path)
        settle(page)
        expect(page.locator("main").get_by_text(EVIL).first, path).to_be_attached(timeout=10_000)
        told = page.evaluate("document.body.textContent").count(EVIL)
        assert told >= least and page.locator("img, main script").count() == 0, (path, told)
    assert tip_of_a_bar(page, cases).count(EVIL) == 1 and page.locator("img").count() == 0
    file = fetched(f"{cases.url}/api/runs/{cases.seen}/report.html").decode()
    assert "<img" not in file and "&lt;img src=x" in file
    assert dialogs == []


def tip_of_a_bar(page: Page, cases: CaseServer) -> str:
    """What the timeline says beside the pointer over a bar of the tenant with the evil name."""
    page.goto(f"{cases.url}/timeline?run={RUN}&rows=tenant")
    settle(page)
    box = page.locator("#bars canvas").bounding_box()
    assert box is not None
    tip = page.locator("#bars .tip")
    for x in range(70, 700, 12):
        for y in (8, 30, 52, 74, 96):
            page.mouse.move(box["x"] + x, box["y"] + y)
            if tip.is_visible() and EVIL in (text := tip.inner_text()):
                return text
    return ""


def test_a_link_shows_its_senders_rows_to_whoever_opens_it_and_back_goes_back(cases: CaseServer, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(f"{cases.url}/requests?run={RUN}&limit=5")
    settle(page)
    steps = [rows(page)]
    page.fill("#q", f"run:{RUN} tenant:b output>20")
    page.press("#q", "Enter")
    steps.append(changed(page, steps[-1]))
    page.click("#rows th >> text=Prompt")
    steps.append(changed(page, steps[-1]))
    page.click("#next")
    steps.append(changed(page, steps[-1]))
    page.reload()
    settle(page)
    assert rows(page) == steps[-1]
    stranger = open_page()
    stranger.goto(page.url)
    settle(stranger)
    assert rows(stranger) == steps[-1] and stranger.input_value("#q") == page.input_value("#q")
    for go, path in ((page.go_back, steps[-2::-1]), (page.go_forward, steps[1:])):
        for step in path:
            before = rows(page)
            go()
            assert changed(page, before) == step
    page.goto(f"{page.url}&colour=red")
    settle(page)
    expect(page.locator("#warning")).to_have_text(re.compile("left out: colour"))
    assert rows(page) == steps[-1]


def rows(page: Page) -> list[str]:
    return page.locator("#rows tbody tr").all_inner_texts()


def changed(page: Page, before: list[str]) -> list[str]:
    """The rows once they are others."""
    page.wait_for_function(
        "(before) => [...document.querySelectorAll('#rows tbody tr')].map((row) => row.innerText).join() !== before",
        arg=",".join(before),
    )
    settle(page)
    return rows(page)


@pytest.mark.parametrize(
    "search", [f'run:{RUN} kind:"{EVIL}" prompt<90', f'run:{RUN} output>20 tenant:"{EVIL}"', f"run:{RUN} tenant:nobody"]
)
def test_every_export_holds_the_set_that_is_shown(cases: CaseServer, open_page: OpenPage, search: str) -> None:
    page = open_page()
    page.goto(f"{cases.url}/requests?q={quote(search)}&sort=-ttft_ms")
    settle(page)
    wanted = cases.ids(f"q={quote(search)}&sort=-ttft_ms")
    assert (len(wanted) > 5) != ("nobody" in search) and len(wanted) < 50
    files = {form: fetched(f"{cases.url}{page.locator(f'#{form}').get_attribute('href')}") for form in ("csv", "jsonl")}
    table = list(csv.DictReader(io.StringIO(files["csv"].decode(), newline="")))
    lines = [json.loads(line) for line in files["jsonl"].splitlines()]
    assert [row["id"] for row in table] == [line["id"] for line in lines] == wanted
    tenants = {line["tenant"] for line in lines}
    assert tenants <= set(TENANTS) and {row["tenant"] for row in table} == {t.replace("=HYPER", "'=HYPER") for t in tenants}
    tables = pytest.importorskip("pyarrow.parquet", reason="NO PYARROW: Parquet is not tested here")
    parquet = io.BytesIO(fetched(f"{cases.url}{page.locator('#parquet').get_attribute('href')}"))
    assert tables.read_table(parquet)["id"].to_pylist() == wanted
    page.click("#sql")
    expect(page.locator("#took")).to_have_text(re.compile(f"^{len(wanted)} rows? in"))
    assert [row[0] for row in cases.live.post("/api/sql", {"sql": page.input_value("#statement")})["rows"]] == wanted


def test_of_many_rows_the_page_comes_at_once_and_soon_says_how_many(cases: CaseServer, open_page: OpenPage) -> None:
    multiply(cases)
    page = open_page()
    page.goto(f"{cases.url}/requests?run=many&sort=-e2e_ms")
    settle(page)
    expect(page.locator("#total")).to_have_text(f"{MANY:,} requests")
    answer = cases.live.get("/api/requests?run=many&limit=50")
    assert not answer["total_exact"] and 50 <= answer["total"] <= 10_000 and len(answer["items"]) == 50
    expect(page.locator("#rows tbody tr")).to_have_count(50)
    expect(page.locator("#facets")).not_to_contain_text("Loading")
    assert page.locator("main .error:visible").count() == 0


def multiply(cases: CaseServer) -> None:
    """MANY copies of one request, as those of another run."""
    with closing(sqlite3.connect(Path(cases.live.data_dir) / "batchscope.db", timeout=20)) as connection, connection:
        names = [row[1] for row in connection.execute("PRAGMA table_info(requests)")]
        given = {"id": "printf('req_%026d', n.i)", "run": "'many'", "e2e_ms": "n.i * 0.5", "client_request_id": "NULL"}
        chosen = ", ".join(given.get(name, f"r.{name}") for name in names)
        connection.execute(
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MANY}) "
            f"INSERT INTO requests ({', '.join(names)}) "
            f"SELECT {chosen} FROM n, (SELECT * FROM requests WHERE run = ? LIMIT 1) r",
            (cases.seen,),
        )
