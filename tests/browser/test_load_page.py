"""The load page: a shape is drawn by keys, pointer and table, and is one string in the link; a run's rate is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import pytest
from live_server import LiveServer, wait_until
from playwright.sync_api import Page, expect


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("load") / "data", "--runner", "simulated") as running:
        yield running


def in_link(page: Page) -> str:
    return parse_qs(urlsplit(page.url).query).get("shape", [""])[0]


def place(page: Page, share: float, rate_share: float) -> tuple[float, float]:
    """Pixels of the editor's plot: of its seconds, and of the top of its axis."""
    box = page.locator(".shape canvas").bounding_box()
    assert box is not None
    left, right, top, foot = 46, 22, 12, 20
    return box["x"] + left + share * (box["width"] - left - right), box["y"] + top + (1 - rate_share) * (
        box["height"] - top - foot
    )


def test_a_shape_is_drawn_by_keys_and_its_link_shows_the_same(server: LiveServer, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(f"{server.url}/load?scenario=shape&shape=0:1+20:8&duration_s=20")
    value, rows, offer = page.locator("input[name=shape]"), page.locator(".shape tbody tr"), page.locator("#offer ul")
    expect(offer).to_contain_text("about 90 arrivals, at most 7.9", timeout=20_000)
    page.locator(".shape canvas").focus()
    for key in ("Enter", "Shift+ArrowUp", "ArrowDown", "PageDown", "Delete"):
        page.keyboard.press(key)
    expect(value).to_have_value("0:1 10:6.3")
    expect(page.locator(".shape [role=status]")).to_have_text("point 2 of 2: 6.30 arrivals a second at 10.0 s")
    expect(rows).to_have_count(2)
    page.keyboard.press("PageUp")
    page.keyboard.press("Delete")  # the first stays
    expect(rows).to_have_count(2)
    assert in_link(page) == "0:1 10:6.3"
    expect(offer).to_contain_text("at most 6.30 a second", timeout=20_000)
    page.locator('[aria-label="point 2: arrivals a second"]').fill("3")
    page.keyboard.press("Enter")  # takes the value; it does not start a run
    expect(value).to_have_value("0:1 10:3")
    value.fill("0:1 10-3")
    page.keyboard.press("Enter")
    expect(page.locator("#offer .problem")).to_have_text("shape: point 2, '10-3', is not SECONDS:RATE")
    page.get_by_role("button", name="step").click()
    drawn = value.input_value()
    assert drawn.count(":") == 4 and in_link(page) == drawn
    expect(page.locator("#offer .problem")).to_be_hidden()
    fresh = open_page(width=600, theme="dark")
    fresh.goto(page.url)
    expect(fresh.locator("input[name=shape]")).to_have_value(drawn)
    expect(fresh.locator("#offer ul")).to_have_text(offer.inner_text(), use_inner_text=True)
    assert fresh.evaluate("document.documentElement.scrollWidth") == 600
    assert server.get("/api/runs")["items"] == []


def test_the_link_holds_every_setting_of_the_scheduler_that_is_filled_in(
    server: LiveServer, open_page: Callable[..., Page]
) -> None:
    link = {
        "scenario": "poisson",
        "scheduler.policy": "vtc",
        "scheduler.policy_params.w_output": "1.5",
        "scheduler.policy_params.weight.ann": "2",
        "scheduler.max_num_seqs": "5",
        "scheduler.enable_chunked_prefill": "false",
    }
    page = open_page()
    page.goto(f"{server.url}/load?{urlencode(link)}")
    expect(page.locator("[name=max_num_seqs]")).to_have_value("5")
    page.locator("[name=rate]").fill("7")
    assert asked(page) == link | {"rate": "7"}
    page.locator("[name=max_num_seqs]").fill("")
    page.locator("[name=max_num_batched_tokens]").fill("512")
    page.locator('[name="policy_params.weight.*"]').fill("ann=2, bob=0.5")
    del link["scheduler.max_num_seqs"]
    link |= {"rate": "7", "scheduler.max_num_batched_tokens": "512", "scheduler.policy_params.weight.bob": "0.5"}
    assert asked(page) == link
    fresh = open_page()
    fresh.goto(page.url)
    expect(fresh.locator('[name="policy_params.weight.*"]')).to_have_value("ann=2, bob=0.5")
    expect(fresh.locator("#warning")).to_be_hidden()
    assert asked(fresh) == link
    fresh.locator("[name=policy]").select_option("edf")  # whose parameters are others
    expect(fresh.locator('[name="policy_params.default_ms"]')).to_have_value("")
    assert [name for name in asked(fresh) if "policy" in name] == ["scheduler.policy"]


def test_settings_that_are_not_here_yet_stay_in_the_link_and_nothing_is_started_without_them(
    server: LiveServer, open_page: Callable[..., Page]
) -> None:
    page, down = open_page(), True
    page.route("**/api/scheduler", lambda route: route.abort() if down else route.continue_())
    page.goto(f"{server.url}/load?scenario=poisson&scheduler.max_num_seqs=5")
    page.locator("[name=rate]").fill("7")
    expect(page.locator("#scheduler .error")).to_contain_text("the server does not answer")
    assert asked(page) == {"scenario": "poisson", "rate": "7", "scheduler.max_num_seqs": "5"}
    expect(page.locator("#start")).to_be_disabled()
    down = False
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("[name=max_num_seqs]")).to_have_value("5")
    expect(page.locator("#start")).to_be_enabled()


def test_what_a_link_asks_for_in_vain_is_named(server: LiveServer, open_page: Callable[..., Page]) -> None:
    page = open_page()
    vain = {"colour": "red", "scheduler.policy": "best", "scheduler.kv_cache_tokens": "9", "rate": "many"}
    page.goto(f"{server.url}/load?{urlencode({'scenario': 'poisson', 'scheduler.max_num_seqs': '5'} | vain)}")
    warning = page.locator("#warning")
    for name, value in vain.items():
        expect(warning).to_contain_text(f"{name}={value}")
    expect(warning).to_contain_text("the rest of the link is applied")
    expect(warning).not_to_contain_text("max_num_seqs")
    assert asked(page) == {"scenario": "poisson", "scheduler.max_num_seqs": "5"}


def test_an_offer_that_could_not_be_had_is_asked_for_again(server: LiveServer, open_page: Callable[..., Page]) -> None:
    page, down = open_page(), True
    page.route("**/offered*", lambda route: route.abort() if down else route.continue_())
    page.goto(f"{server.url}/load?scenario=poisson")
    expect(page.locator("#offer .problem")).to_contain_text("the server does not answer")
    down = False
    page.locator("#offer").get_by_role("button", name="Try again").click()
    expect(page.locator("#offer .problem")).to_be_hidden(timeout=20_000)
    expect(page.locator("#offer ul")).to_contain_text("arrivals")


def asked(page: Page) -> dict[str, str]:
    """The link, as names and values."""
    return dict(parse_qsl(page.evaluate("location.search.slice(1)")))


def test_points_are_dragged_and_added_by_pointer(server: LiveServer, open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.goto(f"{server.url}/load?scenario=shape&shape=0:4+10:4&duration_s=20")
    value = page.locator("input[name=shape]")
    expect(page.locator("#offer ul")).to_contain_text("about 80 arrivals")
    page.mouse.move(*place(page, 0.5, 4 / 5))
    page.mouse.down()
    page.mouse.move(*place(page, 0.6, 3 / 5), steps=3)
    page.mouse.move(*place(page, 0.75, 2 / 5))
    page.mouse.up()
    expect(value).to_have_value("0:4 15:2")
    page.mouse.dblclick(*place(page, 0.25, 1 / 5))
    expect(page.locator(".shape tbody tr")).to_have_count(3)
    (t, rate) = (float(part) for part in value.input_value().split()[1].split(":"))
    assert (t, rate) == pytest.approx((5, 1), abs=0.3) and in_link(page) == value.input_value()


def test_the_rate_shown_is_the_generators_word_and_a_stop_can_be_now(
    server: LiveServer, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    page.goto(f"{server.url}/load?scenario=steady&users=2&output_tokens=400&duration_s=60")
    expect(page.locator("#offer ul")).to_contain_text("2 users")
    page.get_by_role("button", name="Start").click()
    rate = page.locator(".rate b")
    expect(rate).to_have_text("rate × 1 · 2 users", timeout=20_000)
    page.get_by_role("button", name="raise the rate").click()
    expect(rate).to_have_text("rate × 1.5 · 3 users", timeout=10_000)
    page.get_by_label("times the scenario's rate").fill("3")
    page.get_by_role("button", name="Apply").click()
    expect(rate).to_have_text("rate × 3 · 6 users", timeout=10_000)
    expect(page.locator('[data-count="in_flight"]')).to_have_text("6", timeout=20_000)
    run = server.get("/api/runs")["items"][0]["id"]
    page.locator("#log summary").click()
    expect(page.locator("#log pre")).to_have_text("It has said nothing.", timeout=10_000)
    page.get_by_role("button", name="Stop now").click()
    ended = wait_until(lambda: (found := server.get(f"/api/runs/{run}"))["ended"] and found, what="the end")
    assert ended["status"] == "stopped" and [each["factor"] for each in ended["progress"]["rate_changes"]] == [1.5, 3.0]
