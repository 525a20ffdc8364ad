// Horizontal bars of shares: name, bar, figure. Rows: { label, share 0..1, property, figure, href, title }.

import { el, swatch } from "../dom.js";

export function hbars(rows) {
  const nodes = rows.flatMap((row) => {
    const fill = el("i");
    fill.style.setProperty("width", `${100 * row.share}%`);
    fill.style.setProperty("background", `var(--${row.property})`);
    const name = el(
      "span",
      { class: "reason", title: row.title },
      swatch(row.property),
      row.href ? el("a", { href: row.href }, row.label) : row.label,
    );
    return [name, el("div", { class: "track" }, fill), el("span", { class: "figure" }, row.figure)];
  });
  return el("div", { class: "hbars" }, ...nodes);
}
