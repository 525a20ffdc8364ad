// The columns that the list of requests can have. Knows no state: a column is a name, a label, a cell, perhaps a sort key.

import { el, swatch } from "../dom.js";
import { int, ms, NONE, requestUrl, shortId, when, whenShort } from "../format.js";
import { SHORT } from "../words.js";
import { outcomeTag } from "./verdict.js";

const time = (name, label, sort = true) => ({ name, label, sort: sort && name, num: true, cell: (r) => ms(r[name]) });
const count = (name, label, sort = true) => ({ name, label, sort: sort && name, num: true, cell: (r) => int(r[name]) });
const plain = (name, label) => ({ name, label, cell: (r) => (r[name] === null || r[name] === "" ? NONE : String(r[name])) });

function topWait(request) {
  if (!request.top_wait) return NONE;
  return el("span", { class: "reason" }, swatch(`r-${request.top_wait}`), SHORT[request.top_wait] || request.top_wait);
}

function run(request) {
  if (!request.run) return NONE;
  return el("a", { class: "mono", href: `/runs/${encodeURIComponent(request.run)}`, title: request.run }, shortId(request.run));
}

export const COLUMNS = [
  { name: "received", label: "Received", sort: "received", cell: (r) => el("span", { title: when(r.received) }, whenShort(r.received)) },
  { name: "id", label: "Request", sort: "id", cell: (r) => el("a", { class: "mono", href: requestUrl(r.id), title: r.id, tabindex: "-1" }, shortId(r.id)) },
  { name: "outcome", label: "Outcome", cell: outcomeTag },
  plain("tenant", "Tenant"),
  time("queue_ms", "Queue"),
  { name: "top_wait", label: "Waited most for", cell: topWait },
  time("ttft_ms", "TTFT"),
  time("tpot_ms", "TPOT"),
  time("e2e_ms", "E2E"),
  count("prompt_tokens", "Prompt"),
  count("output_tokens", "Output"),
  count("preemptions", "Preempted"),
  plain("kind", "Kind"),
  { name: "run", label: "Run", cell: run },
  plain("policy", "Policy"),
  plain("model", "Model"),
  count("priority", "Priority"),
  count("cached_tokens", "Cached"),
  count("overtaken", "Overtaken", false),
  time("prefill_ms", "Prefill", false),
  time("decode_ms", "Decode", false),
  time("stalled_ms", "Stalled", false),
  time("preempted_ms", "Preempted for", false),
  plain("client_request_id", "Client's id"),
  plain("endpoint", "Endpoint"),
  { name: "status_code", label: "HTTP", num: true, cell: (r) => (r.status_code === null ? NONE : String(r.status_code)) },
];
const USUAL = COLUMNS.slice(0, 14).map((column) => column.name);

/** The columns of the URL's `cols`, [names that are none]; without it the usual ones, without the run where all are of one. */
export function chosen(cols, oneRun) {
  if (!cols) return [COLUMNS.filter(({ name }) => USUAL.includes(name) && !(oneRun && name === "run")), []];
  const names = cols.split(",");
  const known = names.map((name) => COLUMNS.find((column) => column.name === name)).filter(Boolean);
  return [known.length ? known : COLUMNS.slice(0, 14), names.filter((name) => !COLUMNS.some((column) => column.name === name))];
}
