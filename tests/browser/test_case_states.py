"""Every page with nothing in the records, and with an API that fails: a sentence and a way on, never a blank or a raw word."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from live_server import LiveServer, wait_until
from page_walk import Seen, look, settle
from playwright.sync_api import Page, Route, WebSocketRoute, expect

OpenPage = Callable[..., Page]
HARDWARE = "h100-llama-3.1-8b-tp1-bf16"
EMPTY = {
    "/": "Nothing has run yet",
    "/timeline": "Nothing ran in the engine's last minute.",
    "/load": "No run yet.",
    "/runs": "No run yet.",
    "/runs/run_none": "no run 'run_none'",
    "/compare": "run",
    "/requests": "No request yet.",
    "/requests/req_none": "There is no such request",
    "/sql": "Write a SELECT",
    "/policy": "Nothing is changed.",
    "/lesson": "scheduler",
}
ASKING = [path for path in EMPTY if path not in ("/", "/lesson")]
FAILURE = {"error": {"message": "the records are being repaired", "type": "server_error", "param": None, "code": None}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """One in which nothing ever ran."""
    with LiveServer(tmp_path_factory.mktemp("states"), "--runner", "simulated", "--hardware", HARDWARE) as started:
        yield started


@pytest.fixture(scope="module")
def walked(server: LiveServer, browser: object) -> tuple[dict[str, Seen], dict[str, str]]:
    """Every page as it is on empty records, and what a question mark shows on it."""
    page = browser.new_page()  # type: ignore[attr-defined]
    found, listed = {}, {}
    for path in EMPTY:
        found[path] = look(page, server.url + path)
        page.keyboard.press("?")
        listed[path] = page.locator("dialog#keys").inner_text()
        page.keyboard.press("Escape")
        expect(page.locator("dialog#keys"), path).to_have_count(0)
    page.close()
    return found, listed


@pytest.fixture
def seen(walked: tuple[dict[str, Seen], dict[str, str]]) -> dict[str, Seen]:
    return walked[0]


def test_with_nothing_to_show_every_page_says_so_in_words(seen: dict[str, Seen]) -> None:
    assert {path: words for path, words in EMPTY.items() if words not in seen[path].text} == {}


def test_what_is_undefined_is_a_dash_and_no_page_shows_a_raw_word(seen: dict[str, Seen]) -> None:
    assert {path: page.raw_words() for path, page in seen.items() if page.raw_words()} == {}
    tiles = {name: (value, text.strip()) for name, value, text in seen["/"].tiles}
    undefined = [name for name, (value, _) in tiles.items() if value is None]
    assert {"ttft_p95_ms", "itl_p95_ms", "step_ms_p50"} <= set(undefined)
    assert {name: tiles[name][1] for name in undefined} == dict.fromkeys(undefined, "—")


def test_empty_pages_fit_every_window(seen: dict[str, Seen]) -> None:
    assert {path: page.beyond for path, page in seen.items() if max(page.beyond.values()) > 0} == {}


def test_every_canvas_has_a_label_and_a_table(seen: dict[str, Seen]) -> None:
    canvases = [(path, each) for path, page in seen.items() for each in page.canvases]
    assert len(canvases) >= 8
    bare = [(path, each) for path, each in canvases if each["role"] != "img" or not each["label"].strip() or not each["table"]]
    assert bare == []


def test_a_question_mark_lists_the_keys_on_every_page(walked: tuple[dict[str, Seen], dict[str, str]]) -> None:
    assert [path for path, listed in walked[1].items() if "search the records" not in listed] == []


def failing(route: Route) -> None:
    route.fulfill(status=503, json=FAILURE, headers={"X-Request-Id": "req_7"})


@pytest.mark.parametrize("how", ["answers 503", "is not there"])
def test_when_the_api_fails_every_page_says_what_and_trying_again_mends_it(
    server: LiveServer, open_page: OpenPage, how: str
) -> None:
    page = open_page()
    words = "the server does not answer" if how == "is not there" else "the records are being repaired (request req_7)"
    for path in ASKING:
        page.route("**/api/**", failing if how == "answers 503" else lambda route: route.abort())
        page.goto(server.url + path)
        error = page.locator("main .error:visible, main .mistake:visible").first
        expect(error, path).to_contain_text(words)
        page.unroute("**/api/**")
        wait_until(lambda: tried_again(page, words), 20, f"{path} to be mended by trying again")
        expect(page.locator("main"), path).not_to_contain_text(words)
        settle(page)
        assert EMPTY[path] in page.locator("main").inner_text(), path


def tried_again(page: Page, words: str) -> bool:
    """Presses a button, of one a card, and says whether that was the last."""
    buttons = page.get_by_role("button", name="Try again")
    buttons.evaluate_all("shown => shown[0]?.click()")  # at once: a page that asks again by itself takes it away
    page.wait_for_timeout(100)
    return words not in page.locator("main").inner_text()


def test_without_a_line_the_live_page_says_so_and_keeps_what_it_had(server: LiveServer, open_page: OpenPage) -> None:
    page, sockets = open_page(), list[WebSocketRoute]()

    def line(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        if len(sockets) == 1:
            socket.connect_to_server()
        else:
            socket.close(code=1011, reason="cut")

    page.route_web_socket("**/socket.io/**", line)
    page.goto(server.url)
    page.wait_for_selector("body[data-seq]")
    before = page.locator(".tiles").inner_text()
    sockets[0].close(code=1011, reason="cut")
    expect(page.locator("#link")).to_have_text(re.compile("disconnected .*, retrying"))
    expect(page.locator("body")).to_have_attribute("data-stale", "true")
    assert page.locator(".tiles").inner_text() == before
