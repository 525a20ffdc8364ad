// Waiting now: the ten that wait longest, with what they wait for and who holds that. Who waits for the same stands together,
// and it is said once.

import { $, el, setAttr, setHidden, setStyle, setText, swatch } from "../dom.js";
import { int, ms, requestUrl, shortId } from "../format.js";
import { blockersWords } from "../blocked.js";
import { reasonWords, SHORT } from "../words.js";

export function drawWaiting(state) {
  const card = $("#waiting");
  const body = $("tbody", card);
  const rows = state.waitingNow;
  while (body.rows.length > rows.length) body.deleteRow(-1);
  while (body.rows.length < rows.length) body.append(newRow());
  let index = 0;
  for (const [words, group] of grouped(rows, (row) => waitsFor(row, state.gauges)))
    group.forEach((row, place) => fill(body.rows[index++], row, words, place === 0 ? group.length : 0));
  setHidden($(".scroll", card), rows.length === 0);
  setHidden($(".empty", card), rows.length > 0);
}

/** Rows by equal words, in the order of each group's first: [[words, rows], …]. */
export function grouped(rows, wordsOf) {
  const groups = new Map();
  for (const row of rows) {
    const words = wordsOf(row);
    if (!groups.has(words)) groups.set(words, []);
    groups.get(words).push(row);
  }
  return [...groups];
}

function waitsFor(row, gauges) {
  const held = blockersWords(row.blockers, row.number);
  return held ? `${SHORT[row.reason]}: ${held}` : reasonWords(row.reason, gauges);
}

function newRow() {
  const cell = (name, ...children) => el("td", { class: name }, ...children);
  const reason = el("span", { class: "reason" }, swatch("r-step"), el("span"));
  return el(
    "tr",
    {},
    cell(null, el("a", { class: "mono" })),
    cell("num"),
    cell("wrap", reason),
    cell(),
    cell(),
    cell("num"),
    cell("num"),
  );
}

/** `span`: how many rows share the reason said here; 0 where it is said above. */
function fill(node, row, words, span) {
  const [id, waited, reason, tenant, kind, priority, prompt] = node.cells;
  setText(id.firstChild, shortId(row.id));
  setAttr(id.firstChild, "title", row.id);
  setAttr(id.firstChild, "href", requestUrl(row.id));
  setText(waited, ms(row.waited_ms));
  setStyle(reason.firstChild.firstChild, "background", `var(--r-${row.reason})`);
  setText(reason.firstChild.lastChild, words);
  setHidden(reason, span === 0);
  setAttr(reason, "rowspan", Math.max(1, span));
  setText(tenant, row.tenant);
  setText(kind, row.kind);
  setText(priority, int(row.priority));
  setText(prompt, int(row.prompt_tokens));
}
