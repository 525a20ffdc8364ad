"""What of static/ is sent: all of it within 200 kB, packed for whoever takes gzip, and kept until something changes."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import pytest
from flask import Flask, url_for
from flask.testing import FlaskClient

from app import static_files
from app.static_files import StaticFiles

ROOT = Path(__file__).parents[2]
BUDGET = 200_000
PACKED = {"Accept-Encoding": "gzip, deflate, br"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "js").mkdir()
    (tmp_path / "js" / "page.js").write_text('import { a } from "./near.js";\n' + "// a long remark\n" * 50)
    (tmp_path / "js" / "near.js").write_text('import "./far.js";\nexport { a } from "../top.js";\n')
    (tmp_path / "js" / "far.js").write_text('import {\n  b,\n} from "./near.js";\n')
    (tmp_path / "top.js").write_text("export const a = 1;\n")
    return tmp_path


@pytest.fixture
def app(folder: Path) -> Flask:
    made = Flask("files", static_folder=None)
    static_files.install(made, folder)
    return made


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()


def address(app: Flask, name: str) -> str:
    with app.test_request_context("/"):
        return url_for("static", filename=name)


def test_all_files_together_are_within_the_budget_as_they_are_sent() -> None:
    sizes = StaticFiles(ROOT / "static").sizes()
    largest = sorted(sizes, key=lambda name: -sizes[name])[:10]
    told = ", ".join(f"{name} {sizes[name]:,}" for name in largest)
    assert sum(sizes.values()) <= BUDGET, f"static/ is {sum(sizes.values()):,} bytes packed, over {BUDGET:,}: {told}"


def test_who_takes_gzip_gets_the_best_of_it_and_others_the_file(client: FlaskClient, folder: Path) -> None:
    plain = (folder / "js" / "page.js").read_bytes()
    packed = client.get("/static/js/page.js", headers=PACKED)
    assert packed.headers["Content-Encoding"] == "gzip" and gzip.decompress(packed.data) == plain
    assert len(packed.data) == int(packed.headers["Content-Length"]) < len(plain) / 5
    for refusing in ({}, {"Accept-Encoding": "gzip;q=0"}, {"Accept-Encoding": "br"}):
        answer = client.get("/static/js/page.js", headers=refusing)
        assert "Content-Encoding" not in answer.headers and answer.data == plain
        assert answer.headers["Vary"] == "Accept-Encoding" and answer.headers["ETag"] != packed.headers["ETag"]
    assert packed.content_type == "text/javascript; charset=utf-8"


def test_a_file_under_its_version_is_kept_for_good_and_any_other_asked_for_by_its_tag(app: Flask, client: FlaskClient) -> None:
    versioned = address(app, "js/page.js")
    assert re.fullmatch(r"/static/v-[0-9a-f]{12}/js/page\.js", versioned)
    assert "immutable" in client.get(versioned).headers["Cache-Control"]
    for path in ("/static/js/page.js", "/static/v-000000000000/js/page.js"):
        answer = client.get(path)
        assert answer.status_code == 200 and answer.headers["Cache-Control"] == "no-cache"
        again = client.get(path, headers={"If-None-Match": answer.headers["ETag"]})
        assert again.status_code == 304 and again.data == b""


def test_a_changed_file_changes_the_version_and_the_next_page_gets_it(app: Flask, client: FlaskClient, folder: Path) -> None:
    before = address(app, "top.js")
    assert address(app, "top.js") == before
    (folder / "top.js").write_text("export const a = 2;\n")
    os.utime(folder / "top.js", ns=(1, 1))
    after = address(app, "top.js")
    assert after != before and client.get(after).data == b"export const a = 2;\n"
    assert client.get(before).headers["Cache-Control"] == "no-cache"  # a page that is still open: today's file, kept for no-one


def test_only_files_of_the_folder_are_found(client: FlaskClient, folder: Path) -> None:
    (folder.parent / "secret.txt").write_text("no")
    for path in ("../secret.txt", "%2e%2e/secret.txt", "js/../top.js", "/etc/passwd", "nope.js", "js"):
        assert client.get(f"/static/{path}").status_code in (308, 404), path
    assert client.post("/static/top.js").status_code == 405


def test_the_modules_behind_a_page_are_all_that_it_imports_once_each_and_end_where_imports_meet(folder: Path) -> None:
    assert StaticFiles(folder).modules_behind("js/page.js") == ["js/page.js", "js/near.js", "js/far.js", "top.js"]


def test_every_module_that_a_page_asks_for_ahead_is_one_of_ours() -> None:
    files = StaticFiles(ROOT / "static")
    for page in (ROOT / "static" / "js" / "pages").glob("*.js"):
        behind = files.modules_behind(f"js/pages/{page.name}")
        assert all(files.find(name) for name in behind) and "js/dom.js" in behind, page.name
