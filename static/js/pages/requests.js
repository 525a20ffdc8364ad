// The records: filters, order and place are in the URL, so that a link shows what its sender saw.

import { $, el, replace, setAttr, setHidden, setText, swatch, table } from "../dom.js";
import { get, query } from "../api.js";
import { int, ms, NONE, plural, requestUrl, shortId, when, whenShort, zone } from "../format.js";
import { outcomeTag } from "../panels/verdict.js";
import { startShell } from "../shell.js";
import { REASONS, SHORT } from "../words.js";

startShell();
const REASON_CHOICES = REASONS.map((name) => [name, SHORT[name]]);
const plain = (names) => names.map((name) => [name, name]);
const FILTERS = [
  { name: "run", label: "Run" },
  { name: "state", label: "State", choices: plain(["waiting", "running", "preempted", "finished"]) },
  { name: "finish", label: "Finish", choices: plain(["stop", "length", "abort", "timeout", "rejected", "error"]) },
  { name: "wait", label: "Waited for", choices: REASON_CHOICES },
  { name: "top_wait", label: "Waited most for", choices: REASON_CHOICES },
  { name: "tenant", label: "Tenant" },
  { name: "kind", label: "Kind" },
  { name: "policy", label: "Policy" },
  { name: "min_ttft_ms", label: "TTFT ≥ ms", number: true },
  { name: "min_queue_ms", label: "Queue ≥ ms", number: true },
  { name: "min_e2e_ms", label: "E2E ≥ ms", number: true },
  { name: "since", label: "Since (ISO 8601)" },
];
const OTHERS = [
  "until",
  "model",
  "endpoint",
  "detail",
  "client_request_id",
  ...["ttft_ms", "tpot_ms", "queue_ms", "e2e_ms", "prompt_tokens", "cached_tokens", "output_tokens", "preemptions"].flatMap(
    (name) => [`min_${name}`, `max_${name}`],
  ),
];
const PAGING = ["sort", "limit", "cursor"];
const KNOWN = new Set([...FILTERS.map((filter) => filter.name), ...OTHERS, ...PAGING]);
const COLUMNS = [
  { label: "Received", sort: "received", cell: (r) => el("span", { title: when(r.received) }, whenShort(r.received)) },
  { label: "Request", cell: (r) => el("a", { class: "mono", href: requestUrl(r.id), title: r.id }, shortId(r.id)) },
  { label: "Outcome", cell: outcomeTag },
  { label: "Queue", sort: "queue_ms", num: true, cell: (r) => ms(r.queue_ms) },
  { label: "Waited most for", cell: topWait },
  { label: "TTFT", sort: "ttft_ms", num: true, cell: (r) => ms(r.ttft_ms) },
  { label: "TPOT", sort: "tpot_ms", num: true, cell: (r) => ms(r.tpot_ms) },
  { label: "E2E", sort: "e2e_ms", num: true, cell: (r) => ms(r.e2e_ms) },
  { label: "Prompt", sort: "prompt_tokens", num: true, cell: (r) => int(r.prompt_tokens) },
  { label: "Output", sort: "output_tokens", num: true, cell: (r) => int(r.output_tokens) },
  { label: "Preempted", sort: "preemptions", num: true, cell: (r) => int(r.preemptions) },
  { label: "Tenant", cell: (r) => r.tenant },
  { label: "Kind", cell: (r) => r.kind },
  {
    label: "Run",
    cell: (r) =>
      r.run ? el("a", { class: "mono", href: `/runs/${encodeURIComponent(r.run)}`, title: r.run }, shortId(r.run)) : NONE,
  },
];

function topWait(request) {
  if (!request.top_wait) return NONE;
  return el("span", { class: "reason" }, swatch(`r-${request.top_wait}`), SHORT[request.top_wait] || request.top_wait);
}

/** The URL's parameters that we know; the others are named in a warning and left out. */
function asked() {
  const params = Object.fromEntries(new URLSearchParams(location.search));
  const unknown = Object.keys(params).filter((name) => !KNOWN.has(name));
  setHidden($("#warning"), unknown.length === 0);
  setText($("#warning"), `Not a filter, and left out: ${unknown.join(", ")}. The others apply.`);
  return Object.fromEntries(Object.entries(params).filter(([name]) => KNOWN.has(name)));
}

function go(params, trail = []) {
  history.pushState({ trail }, "", `${location.pathname}${query(params)}`);
  show();
}

function buildFilters(params) {
  const nodes = FILTERS.map(({ name, label, choices, number }) => {
    const input = choices
      ? el(
          "select",
          { name },
          el("option", { value: "" }, "any"),
          ...choices.map(([value, text]) => el("option", { value }, text)),
        )
      : el("input", {
          name,
          type: number ? "number" : "text",
          min: number ? 0 : null,
          step: number ? "any" : null,
          maxlength: 200,
        });
    input.value = params[name] || "";
    return el("label", { class: "field" }, el("span", {}, label), input);
  });
  const extra = OTHERS.filter((name) => params[name] && !FILTERS.some((filter) => filter.name === name)).map((name) =>
    el("span", { class: "tag" }, `${name} = ${params[name]}`),
  );
  replace(
    $("#filters .filters"),
    ...nodes,
    ...extra,
    el(
      "div",
      { class: "row" },
      el("button", { class: "primary", type: "submit" }, "Filter"),
      el("button", { type: "reset" }, "Clear"),
    ),
  );
}

function header(column, params) {
  const sort = params.sort || "-received";
  const key = sort.replace(/^-/, "");
  if (!column.sort) return el("th", { class: column.num && "num" }, column.label);
  const down = sort.startsWith("-");
  const next = key === column.sort && down ? column.sort : `-${column.sort}`;
  const mark = key === column.sort ? (down ? " ↓" : " ↑") : "";
  const link = el("a", { href: `${location.pathname}${query({ ...params, sort: next, cursor: null })}` }, column.label + mark);
  link.addEventListener("click", (event) => {
    event.preventDefault();
    go({ ...params, sort: next, cursor: null });
  });
  return el(
    "th",
    { class: column.num && "num", "aria-sort": key === column.sort ? (down ? "descending" : "ascending") : null },
    link,
  );
}

function showRows(page, params) {
  if (page.items.length === 0) {
    replace(
      $("#rows"),
      el(
        "p",
        { class: "empty" },
        "No request matches. ",
        el("a", { href: "/requests" }, "Show all"),
        " or ",
        el("a", { href: "/" }, "send one"),
        ".",
      ),
    );
    return;
  }
  const columns = params.run ? COLUMNS.filter((column) => column.label !== "Run") : COLUMNS;
  const node = table(columns, page.items);
  node.tHead.rows[0].replaceChildren(...columns.map((column) => header(column, params)));
  [...node.tBodies[0].rows].forEach((row, index) =>
    row.addEventListener("click", (event) => {
      if (!event.target.closest("a")) location.assign(requestUrl(page.items[index].id));
    }),
  );
  replace($("#rows"), node);
}

async function show() {
  const params = asked();
  const trail = (history.state && history.state.trail) || [];
  buildFilters(params);
  const filters = Object.fromEntries(Object.entries(params).filter(([name]) => name !== "cursor" && name !== "limit"));
  for (const form of ["csv", "jsonl"]) setAttr($(`#${form}`), "href", `/api/export/requests.${form}${query(filters)}`);
  setAttr($("#api"), "href", `/api/requests${query(params)}`);
  let page;
  try {
    page = await get(`/api/requests${query(params)}`);
  } catch (error) {
    replace($("#rows"), el("p", { class: "error" }, error.message));
    for (const name of ["#previous", "#next"]) $(name).disabled = true;
    return;
  }
  setText(
    $("#total"),
    `${page.total_exact ? "" : "≥ "}${plural(page.total, "request")}${page.total_exact ? "" : " (counting stopped there)"}`,
  );
  showRows(page, params);
  $("#previous").disabled = !params.cursor;
  $("#previous").onclick = () => go({ ...params, cursor: trail.at(-1) || null }, trail.slice(0, -1));
  $("#next").disabled = page.next_cursor === null;
  $("#next").onclick = () => go({ ...params, cursor: page.next_cursor }, [...trail, params.cursor || ""]);
}

$("#filters").addEventListener("submit", (event) => {
  event.preventDefault();
  const given = Object.fromEntries(new FormData(event.target));
  go({ ...asked(), ...given, cursor: null });
});
$("#filters").addEventListener("reset", (event) => {
  event.preventDefault();
  go({ sort: asked().sort });
});
$("#refresh").addEventListener("click", show);
addEventListener("popstate", show);
setText($("#zone"), `times in ${zone()}`);
show();
