"""The files of static/ as they are sent: minified and compressed once, kept in memory, asked for once.

Pages name a file under the version of the whole folder (`/static/v-<version>/js/…`; relative imports of modules stay under
it), so a browser keeps it for a year and asks again only when something has changed. Nothing is bundled; what is vendored is
sent as it is, and so is all where `as_written` is asked for, to read a stack trace. Knows no page and no route but its own.
Invariants: what is sent is what was on disk when a page was last asked for, of the kinds that pages use and no other; what
cannot be minified is sent as written, and the log says so.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import posixpath
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import deflate
from flask import Flask, Response, abort, g, request

FOREVER = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"
MINIFIER = (sys.executable, "-m", "app.minifier")
KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
VENDORED = "vendor/"
BEST = 12  # of libdeflate: 2 % less than gzip -9, in less time
PATIENCE_S = 60.0
_IMPORT = re.compile(r"""(?:\bfrom|\bimport)\s*["'](\.[^"']+)["']""")
log = logging.getLogger("batchscope")


@dataclass(frozen=True, slots=True)
class File:
    """One file as it is sent: its bytes, the same packed as gzip, and the modules that it imports at once."""

    kind: str
    plain: bytes
    packed: bytes
    tag: str
    imports: tuple[str, ...]


class StaticFiles:
    """The files under `folder`, read when first asked for and again after `look` saw a change."""

    def __init__(self, folder: Path, *, as_written: bool = False) -> None:
        self._folder = folder
        self._as_written = as_written
        self._looking = threading.Lock()
        self._seen: tuple[tuple[str, int, int], ...] | None = None
        self._files: dict[str, File] = {}
        self._minified: dict[bytes, bytes] = {}
        self._behind: dict[str, list[str]] = {}
        self.version = ""

    def look(self) -> None:
        """Read the folder anew if a file's time or size differs: about a hundred stats, so at most once a page."""
        with self._looking:
            seen = tuple(sorted(_stats(self._folder)))
            if seen == self._seen:
                return
            written = {name: (self._folder / name).read_bytes() for name, _, _ in seen}
            self._minify(written)
            self._files = {name: _file(name, text, self._minified.get(text, text)) for name, text in written.items()}
            self._behind = {}
            everything = "".join(f"{name} {file.tag}\n" for name, file in self._files.items())
            self.version = hashlib.sha256(everything.encode()).hexdigest()[:12]
            self._seen = seen

    def _minify(self, written: dict[str, bytes]) -> None:
        if self._as_written:
            return
        ours = {name: text for name, text in written.items() if not name.startswith(VENDORED)}
        made = minified({name: text.decode() for name, text in ours.items() if text not in self._minified})
        known = {text: self._minified[text] for text in ours.values() if text in self._minified}
        self._minified = known | {ours[name]: text.encode() for name, text in made.items()}

    def find(self, name: str) -> File | None:
        """The file of that name, which is a key and never a path of the disk."""
        if self._seen is None:
            self.look()
        return self._files.get(name)

    def sizes(self) -> dict[str, int]:
        """Bytes of each file as a browser gets it."""
        self.look()
        return {name: len(file.packed) for name, file in self._files.items()}

    def modules_behind(self, name: str) -> list[str]:
        """A module and all that it imports, nearest first: what a page may fetch at once instead of import by import."""
        if name not in self._behind:
            found = [name]
            for each in found:
                file = self.find(each)
                near = file.imports if file is not None else ()
                found += [path for path in near if path not in found]
            self._behind[name] = found
        return self._behind[name]


def minified(texts: dict[str, str]) -> dict[str, str]:
    """Those of `texts`, by their names, that could be minified; why the others could not is in the log."""
    if not texts:
        return {}
    order = json.dumps(texts).encode()
    root = Path(__file__).parents[1]
    try:
        # In a session of its own: Ctrl-C in a terminal is for the server, which ends in order.
        done = subprocess.run(
            MINIFIER, input=order, capture_output=True, cwd=root, timeout=PATIENCE_S, check=True, start_new_session=True
        )
        answer = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().rpartition("\n")[2]
        log.error("static/ is sent as it is written, not minified: %s", said or error)
        return {}
    for name, fault in answer["faults"].items():
        log.error("static/%s is sent as it is written, not minified: %s", name, fault)
    found: dict[str, str] = answer["texts"]
    return found


@cache
def static_files(folder: Path, as_written: bool) -> StaticFiles:
    """One for each folder of this process."""
    return StaticFiles(folder, as_written=as_written)


def install(app: Flask, folder: Path, *, as_written: bool = False) -> StaticFiles:
    """Serve `folder` under /static, as the endpoint that `url_for("static", filename=…)` means."""
    files = static_files(folder, as_written)
    app.extensions["static_files"] = files

    def send(filename: str, version: str = "") -> Response:
        file = files.find(filename)
        if file is None:
            abort(404)
        return _answer(file, version == files.version)

    @app.url_defaults
    def name_version(endpoint: str, values: dict[str, object]) -> None:
        if endpoint != "static":
            return
        if "static_version" not in g:
            files.look()
            g.static_version = files.version
        values.setdefault("version", g.static_version)

    for rule in ("/static/<path:filename>", "/static/v-<version>/<path:filename>"):
        app.add_url_rule(rule, endpoint="static", view_func=send, methods=["GET"])
    return files


def _answer(file: File, forever: bool) -> Response:
    packed = request.accept_encodings.quality("gzip") > 0
    response = Response(file.packed if packed else file.plain, content_type=file.kind)
    if packed:
        response.headers["Content-Encoding"] = "gzip"
    response.set_etag(f"{file.tag}-gzip" if packed else file.tag)
    response.headers["Vary"] = "Accept-Encoding"
    response.headers["Cache-Control"] = FOREVER if forever else ASK_AGAIN
    response.make_conditional(request)
    return response


def _stats(folder: Path | str, within: str = "") -> Iterator[tuple[str, int, int]]:
    """Name, time and size of each file that may be sent."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _stats(entry.path, f"{within}{entry.name}/")
            elif entry.name.endswith(tuple(KINDS)):
                stat = entry.stat()
                yield within + entry.name, stat.st_mtime_ns, stat.st_size


def _file(name: str, written: bytes, sent: bytes) -> File:
    kind = f"{KINDS[posixpath.splitext(name)[1]]}; charset=utf-8"
    near = _IMPORT.findall(written.decode()) if name.endswith(".js") and not name.startswith(VENDORED) else []
    imports = tuple(dict.fromkeys(posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) for path in near))
    return File(kind, sent, bytes(deflate.gzip_compress(sent, BEST)), hashlib.sha256(sent).hexdigest()[:20], imports)
