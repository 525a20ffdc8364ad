// Beside the search line: what can be asked, by example (the names come from the server, so that none is missing), and what a
// bound leaves out, with a link to it.

import { $, $$, replace, setText } from "../dom.js";
import { get, query } from "../api.js";
import { int } from "../format.js";

export function drawSearchHelp(node, { words, measures }) {
  const names = Object.keys(measures);
  const waits = names.filter((name) => name.startsWith("wait."));
  const of = (unit) => names.filter((name) => measures[name] === unit && !waits.includes(name));
  const known = { words, ms: of("ms"), counts: of(null), waits: waits.map((name) => name.slice(5)) };
  for (const each of $$("[data-names]", node)) setText(each, known[each.dataset.names].join(", "));
}

const BOUND = /^(min|above)_ttft_ms$/;

/** What a bound of TTFT leaves out without a word: requests of the same filters that have no first token. `asked`: the
    filters in force; `link(changes, attributes, text)` makes a link to other ones. */
export async function drawLacking(asked, link) {
  const node = $("#lacking");
  replace(node);
  const bounds = Object.keys(asked).filter((name) => BOUND.test(name));
  if (bounds.length === 0) return;
  const changes = { ...Object.fromEntries(bounds.map((name) => [name, null])), lacks: "ttft_ms" };
  const found = await get(`/api/requests${query({ ...asked, ...changes, limit: 1 })}`).catch(() => null);
  if (found === null || found.total === 0 || node.firstChild) return;
  replace(node, link(changes, {}, `${found.total_exact ? "" : "≥ "}${int(found.total)} more have no first token`));
}
