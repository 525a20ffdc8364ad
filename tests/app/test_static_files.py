"""What of static/ is sent: all of it within 200 kB, minified and right, packed where gzip is taken, kept until it changes."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
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
    static_files.install(made, folder, as_written=True)
    return made


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()


@pytest.fixture(scope="module")
def sent() -> StaticFiles:
    """All of static/, as it is sent."""
    files = StaticFiles(ROOT / "static")
    files.look()
    return files


def address(app: Flask, name: str) -> str:
    with app.test_request_context("/"):
        return url_for("static", filename=name)


def test_all_files_together_are_within_the_budget_as_they_are_sent(sent: StaticFiles) -> None:
    sizes = sent.sizes()
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
    (folder / "js" / "package.json").write_text("{}")  # of no kind that a page asks for
    for path in ("../secret.txt", "%2e%2e/secret.txt", "js/../top.js", "/etc/passwd", "nope.js", "js", "js/package.json"):
        assert client.get(f"/static/{path}").status_code in (308, 404), path
    assert client.post("/static/top.js").status_code == 405


def test_the_modules_behind_a_page_are_all_that_it_imports_once_each_and_end_where_imports_meet(folder: Path) -> None:
    assert StaticFiles(folder).modules_behind("js/page.js") == ["js/page.js", "js/near.js", "js/far.js", "top.js"]


def test_every_module_that_a_page_asks_for_ahead_is_one_of_ours(sent: StaticFiles) -> None:
    for page in (ROOT / "static" / "js" / "pages").glob("*.js"):
        behind = sent.modules_behind(f"js/pages/{page.name}")
        assert all(sent.find(name) for name in behind) and "js/dom.js" in behind, page.name


# ---- minified


def test_ours_are_sent_minified_and_what_is_vendored_as_it_is(sent: StaticFiles) -> None:
    for name in sent.sizes():
        path, file = ROOT / "static" / name, sent.find(name)
        assert file is not None
        if name.startswith("vendor/"):
            assert file.plain == path.read_bytes(), name
        else:
            assert 0 < len(file.plain) < path.stat().st_size, name
            assert b"\n// " not in file.plain, name


def test_minified_modules_parse_find_each_other_and_export_what_was_written(sent: StaticFiles, tmp_path: Path) -> None:
    node = node_or_skip()
    write_all(sent, tmp_path)
    written, made = (linked(node, folder) for folder in (ROOT / "static", tmp_path))
    assert len(written) > 80 and made == written


def test_laws_of_the_scripts_hold_for_what_is_sent(sent: StaticFiles, tmp_path: Path) -> None:
    node = node_or_skip()
    write_all(sent, tmp_path / "static")
    here = tmp_path / "tests" / "browser"
    shutil.copytree(ROOT / "tests" / "browser", here, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    shutil.copytree(ROOT / "app" / "recorded", tmp_path / "app" / "recorded")
    tests = sorted(str(path) for path in here.glob("*_test.mjs"))
    done = subprocess.run([node, "--test", *tests], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_templates_patterns_and_signs_survive(tmp_path: Path) -> None:
    node = node_or_skip()
    text = r"""
    // a remark that goes
    const far = "  two  spaces // no remark  ";
    const deep = (n) => `a\n  ${n > 0 ? `b  ${deep(n - 1)}  c` : "—é"}
      /* no remark */`;
    const parts = "a/b//c".split(/[/]{1,2}|"\/"/g);
    class Box { #held = 0o17; get held() { return this.#held ?? null; } static made = [..."ab"]; }
    const { x = far, ...rest } = { y: 1e3, z: 0xff };
    console.log(JSON.stringify([far, deep(2), parts, new Box().held, Box.made, x, rest, 1_000 / 3, -1 - -1]));
    """
    said = [
        subprocess.run([node, "--input-type=module", "-e", each], capture_output=True, text=True, check=True).stdout
        for each in (text, static_files.minified({"page.js": text})["page.js"])
    ]
    assert said[0] == said[1] != ""


def test_a_modules_own_names_become_letters_and_what_it_imports_and_exports_keeps_its_name(tmp_path: Path) -> None:
    node = node_or_skip()
    text = r"""
import {
  basename as nameOf,
} from "node:path";
import { sep } from "node:path";

const separatorOfTheirs = "import nothing;";
let countOfCalls = 0;
export const rooted = (path) => (countOfCalls++, sep + nameOf(path));
export async function* twice(path) { yield rooted(path); yield hoistedBelow(path); }
export class Kept { static made = separatorOfTheirs.length; }
function hoistedBelow(path) { return `${nameOf(path)}!`; }
await null;
if (countOfCalls === 0) rooted("a");
else hoistedBelow("b");
"""
    made = static_files.minified({"page.js": text})["page.js"]
    assert not re.search("separatorOfTheirs|countOfCalls|hoistedBelow", made) and len(made) < 0.7 * len(text)
    asks = """const found = await import(process.argv[1]);
    const said = [found.rooted("x/y"), found.Kept.made, Object.keys(found)];
    for await (const one of found.twice("p/q")) said.push(one);
    console.log(JSON.stringify(said));"""
    said = list[str]()
    for name, each in (("written", text), ("made", made)):
        (tmp_path / f"{name}.mjs").write_text(each)
        command = [node, "--input-type=module", "-e", asks, str(tmp_path / f"{name}.mjs")]
        said.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert said[0] == said[1] == '["/y",15,["Kept","rooted","twice"],"/q","q!"]\n'


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("const mine = 1;\nexport { mine };\n", "const mine=1;export{mine}"),
        ("const mine = `\nexport const x = 1;\n`;\nmine.at(0);\n", "const mine=`\nexport const x = 1;\n`;mine.at(0)"),
        ("const mine = `\nimport 'x';\n`;\nmine.at(0);\n", "const mine=`\nimport 'x';\n`;mine.at(0)"),
    ],
)
def test_a_module_of_another_form_is_minified_as_it_is(text: str, made: str) -> None:
    assert static_files.minified({"page.js": text})["page.js"] == made


def test_what_cannot_be_minified_is_sent_as_written_and_the_log_says_so(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "js" / "far.js").write_text("const = 3 }\n")
    files = StaticFiles(folder)
    files.look()
    far, top = files.find("js/far.js"), files.find("top.js")
    assert far is not None and far.plain == b"const = 3 }\n" and top is not None and top.plain == b"export const a=1"
    assert [record.levelname for record in caplog.records] == ["ERROR"] and "static/js/far.js is sent as it is" in caplog.text


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("python-of-nobody",), "No such file"),
        ((static_files.MINIFIER[0], "-c", "raise SystemExit('no library')"), "no library"),
        ((static_files.MINIFIER[0], "-c", "import sys; sys.stdin.read(); print('{')"), "Expecting"),
    ],
)
def test_without_a_minifier_all_is_sent_as_written_and_the_log_says_so(
    folder: Path, command: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(static_files, "MINIFIER", command)
    files = StaticFiles(folder)
    found = {name: files.find(name) for name in files.sizes()}
    assert all(file is not None and file.plain == (folder / name).read_bytes() for name, file in found.items())
    assert len(caplog.records) == 1 and "not minified" in caplog.text and said in caplog.text


def test_only_what_changed_is_minified_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[list[str]]()

    def minified(texts: dict[str, str]) -> dict[str, str]:
        asked.append(sorted(texts))
        return {name: text.strip() for name, text in texts.items()}

    monkeypatch.setattr(static_files, "minified", minified)
    files = StaticFiles(folder)
    files.look()
    version = files.version
    (folder / "top.js").write_text("export const a = 22;\n")
    files.look()
    assert asked == [["js/far.js", "js/near.js", "js/page.js", "top.js"], ["top.js"]] and files.version != version
    assert files.find("js/page.js").plain.startswith(b"import")  # type: ignore[union-attr]


def test_the_minifier_leaves_this_process_alone() -> None:
    """Loaded here, its library would take SIGPIPE from Python, which ignores it."""
    code = "import signal, sys; from app.static_files import minified; assert minified({'a.js': 'let a = 1'});"
    code += "assert signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN and 'minify' not in sys.modules"
    subprocess.run([static_files.MINIFIER[0], "-c", code], cwd=ROOT, check=True)


LINK = """
import { SourceTextModule } from "node:vm";
import { readdirSync, readFileSync } from "node:fs";
import { resolve, dirname, relative } from "node:path";
const root = process.argv[1];
const names = readdirSync(`${root}/js`, { recursive: true }).filter((name) => name.endsWith(".js"));
const modules = new Map();
for (const name of names) {
  const path = resolve(root, "js", name);
  modules.set(path, new SourceTextModule(readFileSync(path, "utf-8"), { identifier: path }));
}
const told = {};
for (const [path, module] of modules) {
  if (module.status === "unlinked") await module.link((name, from) => modules.get(resolve(dirname(from.identifier), name)));
  const exported = Reflect.ownKeys(module.namespace).filter((key) => typeof key === "string");
  told[relative(root, path)] = [module.dependencySpecifiers, exported];
}
console.log(JSON.stringify(told));
"""


def linked(node: str, folder: Path) -> dict[str, list[list[str]]]:
    """What each module under `folder` imports and exports; fails where one does not parse or an import finds no export."""
    command = [node, "--no-warnings", "--experimental-vm-modules", "--input-type=module", "-e", LINK, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[list[str]]] = json.loads(done.stdout)
    return found


def write_all(sent: StaticFiles, folder: Path) -> None:
    """What is sent, as files for node."""
    for name in sent.sizes():
        file = sent.find(name)
        assert file is not None
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(file.plain)
    shutil.copy(ROOT / "static" / "js" / "package.json", folder / "js")


def node_or_skip() -> str:
    node = shutil.which("node")
    if node is None:
        pytest.skip("NO NODE: what is sent of static/js is not checked here")
    return node


def test_the_minifier_is_out_of_reach_of_the_terminals_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C reaches a whole group of processes: it would end the child, and be logged as a fault of the texts."""
    told = (
        "import json, os, sys; json.load(sys.stdin); print(json.dumps({'texts': {'group': str(os.getpgrp())}, 'faults': {}}))"
    )
    monkeypatch.setattr(static_files, "MINIFIER", (sys.executable, "-c", told))
    assert static_files.minified({"a.js": ""})["group"] != str(os.getpgrp())
