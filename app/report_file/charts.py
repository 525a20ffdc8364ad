"""The charts of a report as inline SVG: numbers in, elements out. Knows no report and no page; needs no script.

Colours come from the page's style sheet, and no two lines differ by colour alone. What is undefined leaves a hole in its line.
Invariant: every text and every number of an attribute goes through `el`, which escapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH, HEIGHT = 860, 220
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 10, 30
MOST_POINTS = 400
Values = Sequence[float | None]


def el(name: str, *inside: object, **attributes: object) -> Markup:
    """An element. A trailing underscore of an attribute's name is dropped (`class_`), others become hyphens."""
    given = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), value)
        for key, value in attributes.items()
        if value is not None
    )
    head = Markup("<{}{}>").format(Markup(name), given)
    return head + Markup("").join(escape(each) for each in inside) + Markup("</{}>").format(Markup(name))


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart. `style`: a class of the style sheet."""

    label: str
    style: str
    values: Values


def figure(value: float | int | None) -> str:
    """Three significant digits, whole numbers grouped; — for what is undefined."""
    if value is None:
        return "—"
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{round(value):,}"
    return f"{value:.3g}"


def line_chart(title: str, unit: str, lines: Sequence[Line]) -> Markup:
    """Lines over the seconds of a run, thinned to MOST_POINTS means; its legend below."""
    seconds = max((len(line.values) for line in lines), default=0)
    width = max(1, -(-seconds // MOST_POINTS))
    shown = [Line(line.label, line.style, _means(line.values, width)) for line in lines]
    shown = [line for line in shown if any(value is not None for value in line.values)]
    most = _ceiling(max((value for line in shown for value in line.values if value is not None), default=0.0))
    end = max(1, seconds - 1)
    drawn = [piece for line in shown for piece in _pieces(line, width, end, most)]
    said = "; ".join(f"{line.label}: at most {figure(_most(line.values))}" for line in shown) or "nothing was recorded"
    picture = el(
        "svg",
        el("title", f"{title}, {unit}"),
        el("desc", said),
        *_grid(end, most),
        *drawn,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
    )
    legend = el("p", *[_named(line) for line in shown], class_="legend")
    return el("figure", el("figcaption", title, " ", el("small", unit)), picture, legend)


def bar_chart(title: str, unit: str, rows: Sequence[tuple[str, float, str]]) -> Markup:
    """Horizontal bars: (label, length, what is written behind it)."""
    most = max((length for _, length, _ in rows), default=0.0) or 1.0
    parts: list[Markup] = []
    for place, (label, length, said) in enumerate(rows):
        y = 6 + 26 * place
        reach = max(1.0, 400 * length / most)
        parts.append(el("text", label, x=150, y=y + 14, text_anchor="end"))
        parts.append(el("rect", x=160, y=y, width=round(reach, 1), height=18, rx=2, class_="bar"))
        parts.append(el("text", said, x=round(168 + reach, 1), y=y + 14))
    said = "; ".join(f"{label} {words}" for label, _, words in rows)
    picture = el(
        "svg", el("title", title), el("desc", said), *parts, viewBox=f"0 0 {WIDTH} {12 + 26 * len(rows)}", role="img"
    )  # fmt: skip
    return el("figure", el("figcaption", title, " ", el("small", unit)), picture)


def _means(values: Values, width: int) -> list[float | None]:
    bins = [[value for value in values[start : start + width] if value is not None] for start in range(0, len(values), width)]
    return [sum(each) / len(each) if each else None for each in bins]


def _pieces(line: Line, width: int, end: float, most: float) -> list[Markup]:
    """Its stretches between holes; one that is a single point is a dot."""
    drawn, stretch = list[Markup](), list[str]()
    for place, value in enumerate([*line.values, None]):
        if value is not None:
            stretch.append(f"{_x(min(place * width, end), end):.1f},{_y(value, most):.1f}")
        elif stretch:
            drawn.append(_stretch(stretch, line.style))
            stretch = []
    return drawn


def _stretch(points: Sequence[str], style: str) -> Markup:
    if len(points) > 1:
        return el("polyline", points=" ".join(points), class_=f"line {style}")
    x, y = points[0].split(",")
    return el("circle", cx=x, cy=y, r=3.5, class_=f"dot {style}")


def _grid(end: float, most: float) -> list[Markup]:
    drawn = []
    for part in range(5):
        value = most * part / 4
        y = round(_y(value, most), 1)
        drawn.append(el("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
        drawn.append(el("text", figure(value), x=LEFT - 6, y=y + 4, text_anchor="end"))
        x = round(_x(end * part / 4, end), 1)
        anchor = "end" if part == 4 else "middle"
        drawn.append(el("text", f"{figure(end * part / 4)} s", x=x, y=HEIGHT - 10, text_anchor=anchor))
    return drawn


def _named(line: Line) -> Markup:
    sample = el(
        "svg", el("line", x1=0, x2=26, y1=6, y2=6, class_=f"line {line.style}"), viewBox="0 0 26 12", class_="sample"
    )  # fmt: skip
    return el("span", sample, " ", line.label)


def _ceiling(value: float) -> float:
    """The next number of the form 1, 2, 4 or 8 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** (len(f"{int(value)}") - 1) if value >= 1 else 1.0
    return next((power * step for step in (1, 2, 4, 8, 10) if power * step >= value), power * 10)


def _most(values: Values) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _x(at: float, end: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * at / end


def _y(value: float, most: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / most
