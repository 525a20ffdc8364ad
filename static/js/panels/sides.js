// The sides of a comparison: their letters, and the line of each, told by dash and marker as well as by colour. Knows no figure.

import { el } from "../dom.js";
import { listUrl } from "./report_tables.js";

export const MOST = 5;
export const LETTERS = ["A", "B", "C", "D", "E"];
export const LINES = [
  { property: "prefill", dash: [], mark: "circle" },
  { property: "r-kv_blocks", dash: [7, 4], mark: "rect" },
  { property: "r-slots", dash: [2, 3], mark: "triangle" },
  { property: "kv", dash: [10, 3, 2, 3], mark: "rectRot" },
  { property: "preempted", dash: [5, 5], mark: "star" },
];
const SHAPES = {
  circle: ["circle", { cx: 16, cy: 6, r: 3.6 }],
  rect: ["rect", { x: 12.8, y: 2.8, width: 6.4, height: 6.4 }],
  triangle: ["path", { d: "M16 1.6 L20.4 9.4 L11.6 9.4 Z" }],
  rectRot: ["path", { d: "M16 1 L21 6 L16 11 L11 6 Z" }],
  star: ["path", { d: "M16 1 V11 M11 6 H21 M12.5 2.5 L19.5 9.5 M19.5 2.5 L12.5 9.5" }],
};

function svg(tag, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

/** The line of a side as the charts draw it. */
export function lineKey(index) {
  const { property, dash, mark } = LINES[index];
  const key = svg("svg", { width: 32, height: 12, viewBox: "0 0 32 12", class: "linekey", "aria-hidden": "true" });
  key.style.setProperty("--ink", `var(--${property})`);
  const [tag, shape] = SHAPES[mark];
  key.append(svg("path", { d: "M0 6 H32", "stroke-dasharray": dash.join(" ") }), svg(tag, { ...shape, class: "mark" }));
  return key;
}

/** "A" with its line; the label says which run, or which side of one. */
export function sideName(sides, index) {
  const { side } = sides[index];
  return el(
    "span",
    { class: "side", title: side ? `${side} the change` : sides[index].run.id },
    lineKey(index),
    el("b", {}, LETTERS[index]),
    side || null,
  );
}

/** The list of the requests behind a figure of a side. */
export const listOf = ({ run, since, until }, filters = {}) => listUrl(run.id, { ...filters, since, until });
