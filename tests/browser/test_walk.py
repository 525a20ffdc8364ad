"""A person's walk: a load that one tenant floods, seen live, mended by another policy, and told apart from the run before.

Every station is asserted by what stands on the page; its figures are those of the API.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from live_server import LiveServer, wait_until
from playwright.sync_api import Locator, Page, expect

HARDWARE = "rtx4090-llama3.1-8b-tp1-bf16"
LIMITS = ("max_num_seqs=8", "max_num_batched_tokens=2048", "max_model_len=4096")
ASKED = {"polite_rate": 2, "polite_prompt": 100, "noisy_users": 40, "noisy_output": 16, "noisy_from_s": 0.5}
ENDED = ("finished", "stopped", "failed")
SWITCH = "policy fcfs → vtc"
CARDS = ("#sides", "#differing", "#counts", "#figures", "#waits", "#tenants")
HEARD = """window.drawn = new Set(); const fill = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
  drawn.add(text); return fill.call(this, text, ...at); };"""
TENANTS = """(a_now) => { const rows = Object.fromEntries([...document.querySelectorAll("#tenants tbody tr")]
  .map(({ cells }) => [cells[0].textContent, [...cells].slice(2).map(({ textContent }) => parseFloat(textContent))]));
  const [a, b] = [rows.a, rows.b];
  return a && b && b[1] >= a[1] && b[2] > 10 && (a_now === "waits" ? a[2] > 0 : a[2] === 0); }"""
OpenPage = Callable[..., Page]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    limits = [part for limit in LIMITS for part in ("--set", limit)]
    with LiveServer(tmp_path_factory.mktemp("walk"), "--runner", "simulated", "--hardware", HARDWARE, *limits) as started:
        yield started


def test_a_person_walks_from_a_flood_to_its_reason_and_sends_the_link(server: LiveServer, open_whole_page: OpenPage) -> None:
    alone = {**ASKED, "noisy_users": 0, "duration_s": 1}
    before = server.post("/api/runs", {"scenario": "noisy_neighbour", "set": alone})["id"]
    page = open_whole_page()
    page.add_init_script(HEARD)
    page.goto(f"{server.url}/load")
    wait_until(lambda: server.get(f"/api/runs/{before}")["status"] in ENDED, 60, "the run before to end")
    run = start(page)
    see_the_flood(page)
    switch_to_fair_shares(page, server)
    stop_and_open_the_report(page, server, run)
    find_what_stretched_the_slowest(page, server, run)
    compare_and_send_the_link(page, open_whole_page(), server, [before, run])


def go(page: Page, name: str) -> None:
    page.get_by_role("navigation").get_by_role("link", name=name, exact=True).click()


def row(page: Page, card: str, name: str) -> Locator:
    return page.locator(f"{card} tr", has=page.get_by_role("rowheader", name=name, exact=True)).locator("td")


def start(page: Page) -> str:
    """Load: the scenario, what it is asked, Start; the id of its run."""
    page.get_by_role("radio", name="Noisy neighbour").check()
    for name, value in ASKED.items():
        page.fill(f"input[name={name}]", str(value))
    wait_until(lambda: pressed(page), 30, "the run before to be over")
    run = str(page.locator("#note a[href^='/runs/']").get_attribute("href")).rpartition("/")[2]
    page.locator("#note").get_by_role("link", name="watch live").click()
    expect(page.locator("#runchip")).to_contain_text("noisy_neighbour · running", timeout=15_000)
    return run


def pressed(page: Page) -> bool:
    """Whether Start started it; a run before that is still being put away forbids it."""
    page.click("#start")
    expect(page.locator("#note")).not_to_have_text("starting…")
    return "started" in page.locator("#note").inner_text()


def see_the_flood(page: Page) -> None:
    """Live: tenant b has most of the slots, both wait, and the page says for what and who holds it."""
    page.wait_for_function(TENANTS, arg="waits", timeout=30_000)
    expect(page.locator("#sentence")).to_contain_text(re.compile(r"\d+ wait.*slots"))
    expect(page.locator("#queue .legend")).to_contain_text("waiting: slots")
    expect(page.locator("#waiting tbody")).to_contain_text(re.compile(r"8 of 8 slots: tenant b [5-8]"))
    expect(page.locator("#serves")).to_contain_text("policy fcfs")


def switch_to_fair_shares(page: Page, server: LiveServer) -> None:
    """Policy: vtc, applied; Live: the charts mark it, and a waits no more while b does."""
    go(page, "Policy")
    page.select_option("select[name=policy]", "vtc")
    expect(page.locator("#diff")).to_have_text(SWITCH)
    page.click("#apply")
    expect(page.locator("#note")).to_have_text("applied")
    go(page, "Live")
    expect(page.locator("#serves")).to_contain_text("policy vtc")
    page.wait_for_function("(text) => drawn.has(text)", arg=SWITCH)
    assert server.get("/api/live")["markers"][-1]["text"] == SWITCH
    page.wait_for_function(TENANTS, arg="is served", timeout=30_000)
    served = f"/api/requests?run={server.get('/api/live')['run']['id']}&tenant=a&policy=vtc&finish=stop,length&limit=1"
    wait_until(lambda: server.get(served)["total"] >= 3, 30, "three of a to be answered under vtc")


def stop_and_open_the_report(page: Page, server: LiveServer, run: str) -> None:
    """Load: Stop; its report says what /api/runs/{run}/report says, and that the policy was changed."""
    go(page, "Load")
    page.locator("#progress").get_by_role("button", name="Stop", exact=True).click()
    last = page.locator("#runs tbody tr").first
    expect(last).to_contain_text("stopped", timeout=30_000)
    last.get_by_role("link", name="noisy_neighbour").click()
    report = server.get(f"/api/runs/{run}/report")
    expect(page.locator("#head .headline")).to_have_text(report["headline"].replace("`", ""))
    expect(page.locator("#waits")).to_contain_text("slots")
    expect(page.locator("#reconciliation tr", has_text="sent").first).to_contain_text(f"{report['reconciliation']['sent']:,}")
    assert report["reconciliation"]["difference"] == 0
    bundle = page.get_by_role("link", name="Export bundle")
    expect(bundle).to_have_attribute("href", f"/api/runs/{run}/bundle")


def find_what_stretched_the_slowest(page: Page, server: LiveServer, run: str) -> None:
    """Requests: the slowest on top. Its page: the worst gap, the step of it, and whom it shared that step with."""
    page.get_by_role("link", name="Its requests").click()
    page.locator("#rows th").get_by_text("TTFT").click()
    expect(page.locator("#rows th[aria-sort=descending]")).to_contain_text("TTFT")
    slowest = server.get(f"/api/requests?run={run}&sort=-ttft_ms&limit=1")["items"][0]["id"]
    page.locator(f'#rows a[href="/requests/{slowest}"]').click()
    told = server.get(f"/api/requests/{slowest}")
    expect(page.locator("#waited .body")).to_contain_text(re.compile(r"slots — held by tenant [ab] \d+ %"))
    expect(page.locator("#ledger .sum").last).to_have_text(f"{told['e2e_ms']:,.0f} ms")
    worst = told["gaps"]["worst"][0]
    cells = page.locator("#gaps .worst tbody tr").first.locator("td")
    expect(cells.nth(1)).to_have_text(f"{worst['token']:,}")
    cells.nth(2).get_by_role("button", name=f"{worst['step']:,}").click()
    step, dialog = server.get(f"/api/steps/{worst['boot']}/{worst['seq']}"), page.locator("dialog#step")
    expect(dialog.locator("h2")).to_have_text(f"Step {step['step']:,}")
    expect(dialog).to_contain_text(f"{step['prefill_tokens']:,} prefill, {step['decode_tokens']:,} decode")
    picked = dialog.locator(":is(dt:text-is('Prefill'), dt:text-is('Decode')) + dd")  # it may have finished in that step too
    expect(picked.locator(f'a[href="/requests/{slowest}"]')).to_be_visible()
    mates = [one["id"] for one in [*step["chunks"], *step["decodes"]] if one["id"].split("/")[0] != slowest]
    dialog.locator(f'a[href="/requests/{mates[0].split("/")[0]}"]').first.click()
    page.wait_for_url(f"**/requests/{mates[0].split('/')[0]}")
    expect(page.locator(f'#mates a[href="/requests/{slowest}"]')).to_be_visible()


def compare_and_send_the_link(page: Page, fresh: Page, server: LiveServer, runs: list[str]) -> None:
    """The run against the one before: said to be unlike, figures of /api/compare; a browser without a past sees the same."""
    page.locator("#facts").get_by_role("link", name=runs[1]).click()
    page.get_by_role("link", name="Compare with previous").click()
    page.wait_for_url("**/compare?runs=" + ",".join(runs))
    expect(page.locator("#differing")).to_contain_text("not like for like: noisy_users 0 vs 40")
    expect(page.locator("#differing")).to_contain_text("B changed its settings in mid-run")
    found = server.get("/api/compare?runs=" + ",".join(runs))
    a = next(each for each in found["tenants"] if each["name"] == "a")
    shown = row(page, "#tenants", "a").all_inner_texts()
    assert [number(shown[0]), number(shown[1])] == pytest.approx(a["values"], rel=0.006)
    seen = [page.locator(card).inner_text() for card in CARDS]
    fresh.goto(page.url)
    expect(fresh.locator("#figures tbody tr").first).to_be_visible()
    assert [fresh.locator(card).inner_text() for card in CARDS] == seen
    page.get_by_role("link", name=re.compile("^Split at")).click()
    split = row(page, "#tenants", "a")
    expect(split).to_have_count(6)
    under_fcfs, under_vtc = (number(split.nth(side).inner_text()) for side in (0, 1))
    assert under_vtc < under_fcfs, "what the switch was for"


def number(text: str) -> float:
    return float(text.replace(",", ""))
