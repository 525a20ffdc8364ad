// The few ways in which pages touch the document. Text only ever enters as text; an unchanged value writes nothing.

/** An element: el("td", { class: "num", title: "…" }, "text", child). Unset properties (null, false) are left out. */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const $ = (selector, within = document) => within.querySelector(selector);
export const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

/** What stands between backticks as code. */
export const coded = (text) => text.split("`").map((part, place) => (place % 2 ? el("code", {}, part) : part));

export function setText(node, text) {
  const value = String(text);
  if (node.textContent !== value) node.textContent = value;
}

export function setAttr(node, name, value) {
  if (value === null) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, String(value));
  }
}

export function setHidden(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}

/** Styles go through the CSSOM, which the content security policy allows. */
export function setStyle(node, name, value) {
  if (node.style.getPropertyValue(name) !== value) node.style.setProperty(name, value);
}

export function replace(node, ...children) {
  node.replaceChildren(...children.filter((child) => child !== null && child !== undefined && child !== false));
}

/** A long name may break after "_". */
export const breakable = (name) => name.split(/(?<=_)/).flatMap((part) => [part, el("wbr")]);

/** A small coloured square; `name` is a custom property of the style sheet. */
export function swatch(name, line = false) {
  const node = el("i", { class: line ? "swatch line" : "swatch" });
  node.style.setProperty("background", `var(--${name})`);
  return node;
}

/** A legend of [property, label, isLine]; rebuilt only when its entries change. */
export function drawLegend(node, entries) {
  const key = JSON.stringify(entries);
  if (node.dataset.key === key) return;
  node.dataset.key = key;
  replace(node, ...entries.map(([property, label, line]) => el("span", {}, swatch(property, line), label)));
}

/** A table from columns [{ label, num, cell(row), title }] and rows. */
export function table(columns, rows) {
  const head = columns.map((column) => el("th", { class: column.num && "num", title: column.title }, column.label));
  const body = rows.map((row) =>
    el("tr", {}, ...columns.map((column) => el("td", { class: column.num ? "num" : column.class }, column.cell(row)))),
  );
  return el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body));
}
