// The records: search, order, columns and place are in the URL, so that a link shows what its sender saw.

import { $, el, replace, setAttr, setHidden, setText, table } from "../dom.js";
import { get, query } from "../api.js";
import { plural, requestUrl, zone } from "../format.js";
import { onKey } from "../keys.js";
import { drawFacets } from "../panels/facets.js";
import { failure } from "../panels/failure.js";
import { chosen, COLUMNS } from "../panels/request_columns.js";
import { createNewcomers } from "../panels/newcomers.js";
import { createViews } from "../panels/saved_views.js";
import { drawLacking, drawSearchHelp } from "../panels/search_help.js";
import { createSpread } from "../panels/spread.js";
import { startShell } from "../shell.js";
import { onTheme } from "../theme.js";

const MEASURES = Object.fromEntries([...$("#measure").options].map(({ value, text }) => [value, text]));
const OURS = ["cols", "measure"]; // the page's own, no parameters of the API
const PLACE = ["sort", "limit", "cursor"];
let fields = null;
let asked = {}; // the filters in force, as the server understood them
let shows = 0;
startShell();
const spread = createSpread($("#spread"), (measure, from, to) => band(measure, from, to));
const newcomers = createNewcomers();
const drawViews = createViews($("#views"), () => location.search, (text) => visit(text));
onTheme(() => spread.draw());
addEventListener("resize", () => spread.draw());

const url = () => Object.fromEntries(new URLSearchParams(location.search));
const without = (params, names) => Object.fromEntries(Object.entries(params).filter(([name]) => !names.includes(name)));
const kept = () => Object.fromEntries(Object.entries(url()).filter(([name]) => [...OURS, "sort", "limit"].includes(name)));

function visit(text, trail = []) {
  history.pushState({ trail }, "", `${location.pathname}${text}`);
  show();
}

/** The address with these filters instead, from the first page on. */
const address = (filters) => query({ ...filters, ...kept() });

function link(changes, attributes, ...children) {
  const text = address({ ...asked, ...changes });
  const node = el("a", { href: `${location.pathname}${text}`, ...attributes }, ...children);
  node.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    visit(text);
  });
  return node;
}

/** The URL's parameters that the API knows; the others are named in a warning and left out. */
function known() {
  const params = without(url(), OURS);
  const names = [...fields.names, ...PLACE];
  const unknown = Object.keys(params).filter((name) => !names.includes(name));
  const [, columns] = chosen(url().cols, false);
  const left = [...unknown, ...columns.map((name) => `column ${name}`)];
  if (url().measure && !MEASURES[url().measure]) left.push(`measure ${url().measure}`);
  setHidden($("#warning"), left.length === 0);
  setText($("#warning"), `Not known, and left out: ${left.join(", ")}. The rest applies.`);
  return without(params, unknown);
}

function mistake(error, text) {
  const place = error && error.param === "q" && /^at character (\d+): /.exec(error.message);
  setHidden($("#mistake"), !error);
  setAttr($("#q"), "aria-invalid", String(Boolean(error)));
  setText($("#mistake pre"), place ? `${text}\n${" ".repeat(Number(place[1]) - 1)}▲` : "");
  setText($("#mistake p"), error ? error.message : "");
}

function header(column) {
  const sort = url().sort || "-received";
  if (!column.sort) return el("th", { class: column.num && "num", scope: "col" }, column.label);
  const now = sort.replace(/^-/, "") === column.sort;
  const down = sort.startsWith("-");
  const text = query({ ...without(url(), ["cursor"]), sort: now && down ? column.sort : `-${column.sort}` });
  const node = el("a", { href: `${location.pathname}${text}` }, column.label + (now ? (down ? " ↓" : " ↑") : ""));
  node.addEventListener("click", (event) => {
    event.preventDefault();
    visit(text);
  });
  return el("th", { class: column.num && "num", scope: "col", "aria-sort": now ? (down ? "descending" : "ascending") : null }, node);
}

function drawRows(page, columns) {
  if (page.items.length === 0) {
    const way = Object.keys(asked).length ? el("a", { href: "/requests" }, "Show all") : el("a", { href: "/load" }, "Start a load");
    replace($("#rows"), el("p", { class: "empty" }, Object.keys(asked).length ? "No request matches. " : "No request yet. ", way, " or ", el("a", { href: "/" }, "send one"), "."));
    return;
  }
  const node = table(columns, page.items);
  node.tHead.rows[0].replaceChildren(...columns.map(header));
  [...node.tBodies[0].rows].forEach((row, index) => {
    const open = () => location.assign(requestUrl(page.items[index].id));
    row.tabIndex = 0;
    row.addEventListener("click", (event) => event.target.closest("a") || open());
    row.addEventListener("keydown", (event) => event.key === "Enter" && event.target === row && open());
  });
  replace($("#rows"), node);
}

function drawPager(page, params) {
  const trail = (history.state && history.state.trail) || [];
  const byTime = !params.sort || params.sort === "-received";
  const text = (cursor) => query({ ...url(), cursor });
  setText($("#previous"), params.cursor && trail.length === 0 ? "← First page" : byTime ? "← Newer" : "← Previous");
  setText($("#next"), byTime ? "Older →" : "Next →");
  $("#previous").disabled = !params.cursor;
  $("#previous").onclick = () => visit(text(trail.at(-1) || null), trail.slice(0, -1));
  $("#next").disabled = page === null || page.next_cursor === null;
  $("#next").onclick = () => visit(text(page.next_cursor), [...trail, params.cursor || ""]);
}

function drawLinks(params) {
  const filters = without(params, ["cursor", "limit"]);
  for (const form of ["csv", "jsonl", "parquet"]) setAttr($(`#${form}`), "href", `/api/export/requests.${form}${query(filters)}`);
  if (!fields.exports.includes("parquet")) {
    $("#parquet").removeAttribute("href");
    setAttr($("#parquet"), "aria-disabled", "true");
    setAttr($("#parquet"), "title", "needs pyarrow: .venv/bin/pip install -e '.[parquet]'");
  }
  setAttr($("#api"), "href", `/api/requests${query(params)}`);
  $("#sql").onclick = async () => {
    const { sql } = await get(`/api/requests/sql${query(filters)}`);
    location.assign(`/sql${query({ q: sql })}`);
  };
}

async function drawSet(filters, turn, exact) {
  const measure = MEASURES[url().measure] ? url().measure : "ttft_ms";
  $("#measure").value = measure;
  for (const [path, draw, node] of [
    [`/api/requests/facets${query(filters)}`, (answer) => drawFacets($("#facets"), answer.facets, asked, link), $("#facets")],
    [`/api/requests/spread${query({ ...filters, measure })}`, (answer) => {
      spread.show(answer, `No request of these has a ${MEASURES[measure]}.`);
      if (!exact && !answer.timed_out) setText($("#total"), plural(answer.percentiles.n + answer.undefined, "request"));
    }, $("#nospread")],
  ]) {
    try {
      const answer = await get(path);
      if (turn !== shows) return;
      draw(answer);
    } catch (error) {
      if (turn !== shows) return;
      setHidden(node, false);
      replace(node, el("span", { class: "error" }, error.message));
    }
  }
}

async function show() {
  const turn = (shows += 1);
  newcomers.stop();
  setAttr($("#rows"), "aria-busy", "true");
  const params = known();
  drawLinks(params);
  drawViews();
  let page;
  try {
    page = await get(`/api/requests${query(params)}`);
  } catch (error) {
    if (turn !== shows) return;
    setAttr($("#rows"), "aria-busy", "false");
    $("#q").value = params.q || "";
    mistake(error, params.q || "");
    setText($("#total"), "");
    const again = el("button", { type: "button", onclick: show }, "Try again");
    replace($("#rows"), el("p", { class: "error" }, error.param === "q" ? "The search was not understood: see above." : error.message), error.status !== 400 && el("p", { class: "empty" }, again));
    drawPager(null, params);
    replace($("#facets"), el("small", {}, "Nothing was counted."));
    spread.show(null, "Nothing was measured.");
    return;
  }
  if (turn !== shows) return;
  mistake(null);
  asked = page.asked.params;
  $("#q").value = page.asked.q;
  setAttr($("#rows"), "aria-busy", "false");
  setText($("#total"), page.total_exact ? plural(page.total, "request") : `≥ ${plural(page.total, "request")} (counting stopped there)`);
  drawLacking(asked, link);
  const [columns] = chosen(url().cols, (asked.run || "").startsWith("run_"));
  drawRows(page, columns);
  drawColumns(columns);
  drawPager(page, params);
  const first = !params.cursor && (!params.sort || params.sort === "-received");
  if (!("since" in asked || "until" in asked)) newcomers.measure(without(params, PLACE), first ? page.items[0] || null : undefined);
  await drawSet(without(params, PLACE), turn, page.total_exact);
}

function drawColumns(columns) {
  const boxes = COLUMNS.map((column) => {
    const box = el("input", { type: "checkbox", value: column.name, checked: columns.includes(column) });
    box.addEventListener("change", () => {
      const names = columns.map((each) => each.name).filter((name) => name !== column.name); // shown in the order they came in
      if (box.checked) names.push(column.name);
      visit(query({ ...url(), cols: names.join(",") || null }), (history.state && history.state.trail) || []);
    });
    return el("label", {}, box, column.label);
  });
  replace($("#columns .choices"), ...boxes);
}

function band(measure, from, to) {
  const bound = (value) => (value === "" || value === null ? null : typeof value === "number" ? Number(value.toPrecision(3)) : value);
  const changes = Object.fromEntries(["above", "below"].map((end) => [`${end}_${measure}`, null]));
  visit(address({ ...asked, ...changes, [`min_${measure}`]: bound(from), [`max_${measure}`]: bound(to) }));
}

/** [ and ] move the focus from row to row; Enter opens the one that has it. */
function move(step) {
  const rows = [...document.querySelectorAll("#rows tbody tr")];
  const at = rows.indexOf(document.activeElement);
  const next = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, at + step))];
  if (next) next.focus();
}

async function start() {
  setText($("#zonename"), `times in ${zone()}`);
  if (innerWidth <= 900) $("#facetcard").open = false;
  onKey("[", "previous row", () => move(-1));
  onKey("]", "next row; Enter opens it", () => move(1));
  $("#search").addEventListener("submit", (event) => {
    event.preventDefault();
    visit(address({ q: $("#q").value.trim() }));
  });
  $("#band").addEventListener("submit", (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    band($("#measure").value, given.get("from").trim(), given.get("to").trim());
  });
  $("#measure").addEventListener("change", () => visit(query({ ...url(), measure: $("#measure").value === "ttft_ms" ? null : $("#measure").value }), (history.state && history.state.trail) || []));
  $("#refresh").addEventListener("click", show);
  $("#new").addEventListener("click", () => visit(query(without(url(), ["cursor"]))));
  await begin();
}

async function begin() {
  try {
    fields = await get("/api/requests/fields");
  } catch (error) {
    return replace($("#rows"), failure(error, begin));
  }
  drawSearchHelp($("#how"), fields);
  addEventListener("popstate", show);
  await show();
}
start();
