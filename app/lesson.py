"""The lesson: docs/lesson*.md as HTML, and the recorded runs that it plays. Knows no engine and no record.

One source for the documentation and the page: what leads to files of the repository is plain text here, what leads to the
default address leads to this server. Invariant: the HTML holds only what Markdown makes; HTML in the file is shown as text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.token import Token
from markupsafe import Markup

ROOT = Path(__file__).resolve().parents[1]
RECORDED = Path(__file__).parent / "recorded"
HERE = "http://127.0.0.1:8000"  # how the documents name a page of the server
FILES = {"en": "lesson.md", "zh-CN": "lesson.zh-CN.md"}
_JOINT = re.compile(r"(/|(?<=[A-Za-z])\.(?=[a-z]{3}))")
PAGES = {"lesson.md": "/lesson", "lesson.zh-CN.md": "/lesson?lang=zh"}


@dataclass(frozen=True, slots=True)
class Lesson:
    """A rendered page: `lang` as HTML names it."""

    title: str
    lang: str
    html: Markup


@cache
def read_lesson(wanted: str) -> Lesson:
    """The lesson in the language `wanted` ("zh…": Chinese, anything else: English)."""
    lang = "zh-CN" if wanted.lower().startswith("zh") else "en"
    return render((ROOT / "docs" / FILES[lang]).read_text("utf-8"), lang)


@cache
def recordings() -> dict[str, bytes]:
    """The recorded runs by name: JSON packed by gzip."""
    return {path.name.removesuffix(".json.gz"): path.read_bytes() for path in sorted(RECORDED.glob("*.json.gz"))}


def render(text: str, lang: str) -> Lesson:
    """Markdown (CommonMark and tables) as a page; its first heading is the title."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.add_render_rule("code_inline", _breakable)
    tokens = markdown.parse(text)
    title = ""
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            heading = tokens[at + 1].content
            title = title or heading
            token.attrSet("id", slug(heading))
        if token.children:
            token.children = _lead_here(token.children)
    html = markdown.renderer.render(tokens, markdown.options, {})
    html = html.replace("<table>", '<div class="scroll"><table>').replace("</table>", "</table></div>")
    return Lesson(title, lang, Markup(html))


def slug(heading: str) -> str:
    """The id that GitHub gives a heading, so that a link to a section works in both places."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _breakable(_: object, tokens: Sequence[Token], at: int, *rest: object) -> str:
    """Paths and dotted names may break where they are joined: a narrow window has no room for a whole one."""
    return "<code>" + _JOINT.sub(r"\1<wbr>", escapeHtml(tokens[at].content)) + "</code>"


def _lead_here(tokens: Sequence[Token]) -> list[Token]:
    """Links to pages lead to this server, links to files lose their link and keep their words."""
    kept, open_links = [], list[bool]()
    for token in tokens:
        if token.type == "link_open":
            href = _here(str(token.attrGet("href")))
            open_links.append(href is not None)
            token.attrSet("href", href or "")
        if token.type in ("link_open", "link_close") and not (
            open_links[-1] if token.type == "link_open" else open_links.pop()
        ):
            continue
        kept.append(token)
    return kept


def _here(href: str) -> str | None:
    if href.startswith(("#", "https://")):
        return href
    return href.removeprefix(HERE) or "/" if href.startswith(HERE) else PAGES.get(href)
