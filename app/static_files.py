"""The files of static/ as they are sent: compressed once, kept in memory, asked for once.

Pages name a file under the version of the whole folder (`/static/v-<version>/js/…`; relative imports of modules stay under
it), so a browser keeps it for a year and asks again only when something has changed. Nothing is bundled or minified: a fault in
a browser shows the source. Knows no page and no route but its own.
Invariant: what is sent is what is on disk when a page was last asked for.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import posixpath
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from flask import Flask, Response, abort, g, request

FOREVER = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"
_IMPORT = re.compile(r"""(?:\bfrom|\bimport)\s*["'](\.[^"']+)["']""")


@dataclass(frozen=True, slots=True)
class File:
    """One file: its bytes, and the same packed by gzip at its best."""

    kind: str
    plain: bytes
    packed: bytes
    tag: str


class StaticFiles:
    """The files under `folder`, read when first asked for and again after `look` saw a change."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: tuple[tuple[str, int, int], ...] | None = None
        self._files: dict[str, File] = {}
        self.version = ""

    def look(self) -> None:
        """Read the folder anew if a file's time or size differs: about a hundred stats, so at most once a page."""
        paths = sorted(path for path in self._folder.rglob("*") if path.is_file())
        seen = tuple((str(path), (stat := path.stat()).st_mtime_ns, stat.st_size) for path in paths)
        if seen == self._seen:
            return
        self._files = {path.relative_to(self._folder).as_posix(): _read(path) for path in paths}
        everything = "".join(f"{name} {file.tag}\n" for name, file in self._files.items())
        self.version = hashlib.sha256(everything.encode()).hexdigest()[:12]
        self._seen = seen

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
        found = [name]
        for each in found:
            file = self.find(each)
            text = file.plain.decode() if file is not None else ""
            near = [posixpath.normpath(posixpath.join(posixpath.dirname(each), path)) for path in _IMPORT.findall(text)]
            found += [path for path in dict.fromkeys(near) if path not in found]
        return found


@cache
def static_files(folder: Path) -> StaticFiles:
    """One for each folder of this process."""
    return StaticFiles(folder)


def install(app: Flask, folder: Path) -> None:
    """Serve `folder` under /static, as the endpoint that `url_for("static", filename=…)` means."""
    files = static_files(folder)
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


def _read(path: Path) -> File:
    plain = path.read_bytes()
    kind = mimetypes.guess_type(path.name)[0] or "text/plain"
    if kind.startswith("text/") or kind.endswith(("javascript", "json", "xml")):
        kind += "; charset=utf-8"
    return File(kind, plain, gzip.compress(plain, 9, mtime=0), hashlib.sha256(plain).hexdigest()[:20])
