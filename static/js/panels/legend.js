// A legend of [property, label, isLine]; rebuilt only when its entries change.

import { el, replace, swatch } from "../dom.js";

export function drawLegend(node, entries) {
  const key = JSON.stringify(entries);
  if (node.dataset.key === key) return;
  node.dataset.key = key;
  replace(node, ...entries.map(([property, label, line]) => el("span", {}, swatch(property, line), label)));
}
