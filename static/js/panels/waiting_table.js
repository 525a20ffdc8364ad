// Waiting now: the ten that wait longest, each with what it waits for and who holds that.

import { $, el, replace, setAttr, setHidden, setStyle, setText, swatch } from "../dom.js";
import { int, ms, requestUrl, shortId } from "../format.js";
import { blockersWords } from "../blocked.js";
import { reasonWords, SHORT } from "../words.js";

export function drawWaiting(state) {
  const card = $("#waiting");
  const body = $("tbody", card);
  const rows = state.waitingNow;
  while (body.rows.length > rows.length) body.deleteRow(-1);
  while (body.rows.length < rows.length) body.append(newRow());
  rows.forEach((row, index) => fill(body.rows[index], row, state.gauges));
  setHidden($(".scroll", card), rows.length === 0);
  setHidden($(".empty", card), rows.length > 0);
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

function fill(node, row, gauges) {
  const [id, waited, reason, tenant, kind, priority, prompt] = node.cells;
  setText(id.firstChild, shortId(row.id));
  setAttr(id.firstChild, "title", row.id);
  setAttr(id.firstChild, "href", requestUrl(row.id));
  setText(waited, ms(row.waited_ms));
  setStyle(reason.firstChild.firstChild, "background", `var(--r-${row.reason})`);
  const held = blockersWords(row.blockers, row.number);
  setText(reason.firstChild.lastChild, held ? `${SHORT[row.reason]}: ${held}` : reasonWords(row.reason, gauges));
  setText(tenant, row.tenant);
  setText(kind, row.kind);
  setText(priority, int(row.priority));
  setText(prompt, int(row.prompt_tokens));
}
