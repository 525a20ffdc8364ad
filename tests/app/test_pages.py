"""Pages: each answers, under a policy that forbids inline code, with vendored files that are what they say they are."""

from __future__ import annotations

import gzip
import hashlib
import re
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient

from app.pages import NAV, no_such_page, pages

ROOT = Path(__file__).parents[2]
TEMPLATES = sorted((ROOT / "templates").glob("*.html"))
SCRIPTS = sorted(path for path in (ROOT / "static" / "js").rglob("*.js"))
PATHS = ["/", "/load", "/runs", "/runs/run_1", "/compare", "/requests", "/requests/req_1", "/sql", "/policy", "/lesson"]


@pytest.fixture
def client() -> FlaskClient:
    app = Flask("pages", template_folder=str(ROOT / "templates"), static_folder=str(ROOT / "static"))
    app.register_blueprint(pages)
    app.register_error_handler(404, no_such_page)
    return app.test_client()


@pytest.mark.parametrize("path", PATHS)
def test_every_page_answers_and_forbids_inline_code(client: FlaskClient, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 200
    policy = response.headers["Content-Security-Policy"]
    assert "script-src 'self';" in policy and "style-src 'self';" in policy and "unsafe" not in policy
    for name in re.findall(r'(?:src|href)="(/static/[^"]+)"', response.text):
        assert (ROOT / name.lstrip("/")).is_file(), name


def test_the_navigation_holds_only_pages_that_exist(client: FlaskClient) -> None:
    for endpoint, label in NAV:
        path = "/" if endpoint == "live" else f"/{endpoint}"
        page = client.get(path).text
        assert f'aria-current="page">{label}</a>' in page


def test_what_a_url_says_is_escaped(client: FlaskClient) -> None:
    page = client.get("/requests/%22%3E%3Cimg%20src=x%3E").text
    assert "<img" not in page


BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


def test_who_looks_for_a_page_that_is_not_there_is_shown_the_way_back(client: FlaskClient) -> None:
    response = client.get("/nope<b>", headers=BROWSER)
    assert response.status_code == 404 and response.mimetype == "text/html"
    assert '<a class="button" href="/">' in response.text and "/nope&lt;b&gt;" in response.text
    assert all(f">{label}</a>" in response.text for _, label in NAV)


@pytest.mark.parametrize(
    ("path", "accept"),
    [
        ("/api/nope", BROWSER),
        ("/v1/nope", BROWSER),
        ("/nope", {"Accept": "*/*"}),
        ("/nope", {"Accept": "application/json"}),
        ("/nope", {}),
    ],
)
def test_programs_get_the_error_object(client: FlaskClient, path: str, accept: dict[str, str]) -> None:
    response = client.get(path, headers=accept)
    assert response.status_code == 404 and response.json["error"]["code"] == "unknown_url"


def test_a_sequence_leads_to_its_request(client: FlaskClient) -> None:
    response = client.get("/requests/req_1/3")
    assert response.status_code == 302
    assert response.headers["Location"].startswith("/requests/req_1?")


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_templates_hold_no_inline_script_style_or_handler(template: Path) -> None:
    text = template.read_text("utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=", text)


def test_no_file_of_ours_loads_from_elsewhere() -> None:
    own = [*TEMPLATES, *SCRIPTS, *(ROOT / "static" / "css").glob("*.css")]
    for path in own:
        assert not re.search(r"(?:src|href|url|import|from)\W{1,3}(?:https?:)?//", path.read_text("utf-8")), path.name


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_import_of_a_script_exists(script: Path) -> None:
    for name in re.findall(r'from "(\.[^"]+)"', script.read_text("utf-8")):
        assert (script.parent / name).resolve().is_file(), name


def test_scripts_write_text_never_markup() -> None:
    for path in SCRIPTS:
        text = path.read_text("utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), path.name
        assert len(text.splitlines()) <= 250, path.name


def test_vendored_files_are_listed_with_their_true_hashes() -> None:
    folder = ROOT / "static" / "vendor"
    listed = dict(re.findall(r"\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|", (folder / "README.md").read_text("utf-8")))
    assert set(listed) == {path.name for path in folder.glob("*.js")}
    for name, digest in listed.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name


def test_the_lesson_says_its_language(client: FlaskClient) -> None:
    assert '<html lang="en">' in client.get("/lesson").text and '<html lang="en">' in client.get("/policy").text
    assert '<html lang="zh-CN">' in client.get("/lesson?lang=zh").text


def test_a_recording_is_sent_packed_and_one_that_is_not_there_is_no_file_either(client: FlaskClient) -> None:
    response = client.get("/recorded/tutorial.json")
    assert (response.status_code, response.mimetype, response.headers["Content-Encoding"]) == (200, "application/json", "gzip")
    assert gzip.decompress(response.data).startswith(b'{"format":1,"scenario":"tutorial"')
    for name in ("nobody", "..%2flesson", "tutorial.json.gz"):
        assert client.get(f"/recorded/{name}.json", headers={"Accept": "*/*"}).json["error"]["code"] == "unknown_url"
