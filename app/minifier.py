"""`python -m app.minifier`: texts without what only people need. {name: text} as JSON on stdin, {"texts", "faults"} on stdout.

A process of its own, since the library is Go: loading it takes SIGPIPE, which Python ignores, and starts threads, and a panic
of it ends the process. Knows no file and no page; the end of a name says what a text is.
Invariant: each name is in one of the two: minified whole, or with what is wrong with it.
"""

from __future__ import annotations

import json
import sys

import minify

KINDS = {"js": "application/javascript", "css": "text/css", "svg": "image/svg+xml"}


def main() -> None:
    """All of them, then end."""
    texts, faults = dict[str, str](), dict[str, str]()
    for name, text in json.load(sys.stdin.buffer).items():
        try:
            texts[name] = minify.string(KINDS[name.rpartition(".")[2]], text)
        except minify.MinifyError as error:
            faults[name] = str(error)
    json.dump({"texts": texts, "faults": faults}, sys.stdout)


if __name__ == "__main__":
    main()
