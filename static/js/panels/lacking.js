// What a bound of TTFT leaves out without a word: requests of the same filters that have no first token. A link shows them.

import { $, replace } from "../dom.js";
import { get, query } from "../api.js";
import { int } from "../format.js";

const BOUND = /^(min|above)_ttft_ms$/;

/** `asked`: the filters in force; `link(changes, attributes, text)` makes a link to other ones. */
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
