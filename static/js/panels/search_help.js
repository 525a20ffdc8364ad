// What can be asked, by example: the page says it, the names come from the server, so that none is missing.

import { $$, setText } from "../dom.js";

export function drawSearchHelp(node, { words, measures }) {
  const names = Object.keys(measures);
  const waits = names.filter((name) => name.startsWith("wait."));
  const of = (unit) => names.filter((name) => measures[name] === unit && !waits.includes(name));
  const known = { words, ms: of("ms"), counts: of(null), waits: waits.map((name) => name.slice(5)) };
  for (const each of $$("[data-names]", node)) setText(each, known[each.dataset.names].join(", "));
}
