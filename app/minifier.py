"""`python -m app.minifier`: texts without what only people need. {name: text} as JSON on stdin, {"texts", "faults"} on stdout.

A process of its own, since the library is Go: loading it takes SIGPIPE, which Python ignores, and starts threads, and a panic
of it ends the process. Knows no file and no page; the end of a name says what a text is.
Names at the top of a script are whole to the library, which cannot know who else uses them; within a function they become
letters. So a module of the plain form (imports, then statements, some of them exported where they are declared) is shown to
it as the body of a function, and unpacked again. Invariants: each name is in one of the two, minified whole, or with what is
wrong with it; a module imports and exports the names that it did.
"""

from __future__ import annotations

import json
import re
import sys
import zlib

import minify

KINDS = {"js": "application/javascript", "css": "text/css", "svg": "image/svg+xml"}
_IMPORT = re.compile(r"""^import (?:[^;"'`]+ from )?["'][^"'`;]+["'];[ \t]*$""", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:(?:async )?function\*?|const|let|class) ([\w$]+))", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b", re.MULTILINE)
_QUOTED = re.compile(r"\n\s*(?:import|export)\b")  # once minified, lines are left in quoted text alone
_BODY = re.compile(r"\(async function\(\)\{(.*?)[,;]?__names\(([\w$,]*)\)\}\)\(\);?", re.DOTALL)


def main() -> None:
    """All of them, then end."""
    texts, faults = dict[str, str](), dict[str, str]()
    for name, text in json.load(sys.stdin.buffer).items():
        kind = name.rpartition(".")[2]
        try:
            plain = minify.string(KINDS[kind], text)
            texts[name] = plain if kind != "js" else min(plain, module(text, plain) or plain, key=_packed)
        except minify.MinifyError as error:
            faults[name] = str(error)
    json.dump({"texts": texts, "faults": faults}, sys.stdout)


def module(text: str, plain: str) -> str | None:
    """A module with letters for its own names; None where it is not of the plain form. `plain`: the same, minified as it is."""
    imports, names = _IMPORT.findall(text), _EXPORT.findall(text)
    body = _EXPORT.sub("", _IMPORT.sub("", text))
    if _OTHER.search(body) or _QUOTED.search(plain):
        return None
    made = minify.string(KINDS["js"], f"(async function(){{{body}\n;__names({','.join(names)})}})()")
    found = _BODY.fullmatch(made)
    if found is None:
        return None
    inner, letters = found[1], found[2].split(",")
    exported = ",".join(f"{letter} as {name}" for letter, name in zip(letters, names, strict=True)) if names else ""
    ends = f";export{{{exported}}}" if exported else ""
    return "".join(minify.string(KINDS["js"], each).rstrip(";") + ";" for each in imports) + inner + ends


def _packed(text: str) -> int:
    return len(zlib.compress(text.encode(), 9))


if __name__ == "__main__":
    main()
