// The tables of a comparison: what differs, counts, figures, tenants. Pure: the answer of GET /api/compare in, nodes out.

import { el } from "../dom.js";
import { int, NONE, percent, sig3, valueText } from "../format.js";
import { MEANS } from "./report_tables.js";
import { LETTERS, listOf, sideName } from "./sides.js";
import { verdictTag } from "./verdict.js";

const OF = { settings: "setting", parameters: "of the scenario", run: "of the run", engine: "engine", versions: "version" };

const head = (...cells) => el("thead", {}, el("tr", {}, ...cells));
const th = (text, num = false, title = null) => el("th", { class: num && "num", title, scope: "col" }, text);
const rowHead = (text, title) => el("th", { scope: "row", title }, text);
const grid = (cells, rows, narrow = false) =>
  el("div", { class: "scroll" }, el("table", { class: narrow && "narrow" }, head(...cells), el("tbody", {}, ...rows)));
const sideHeads = (sides, num) =>
  sides.map((_, index) => el("th", { class: num && "num", scope: "col" }, sideName(sides, index)));

// ---- what differs

export function warnings({ runs, split, warnings: list }) {
  if (list.length === 0) return null;
  const named = (text) =>
    runs.reduce((said, { run }, index) => said.replace(`run ${run.id}`, split ? "the run" : LETTERS[index]), text);
  return el(
    "ul",
    { class: "warnings" },
    ...list.map((text) => el("li", {}, el("b", { "aria-hidden": "true" }, "⚠ "), named(text))),
  );
}

export function differing({ runs, differing: rows, equal }) {
  const said = rows.map((row) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, el("code", {}, row.name)),
      el("td", { class: "mut" }, OF[row.of]),
      ...row.values.map((value) => el("td", { class: "wrap" }, valueText(value))),
    ),
  );
  const same = equal.map((row) => el("div", {}, el("dt", {}, el("code", {}, row.name)), el("dd", {}, valueText(row.value))));
  return [
    rows.length
      ? grid([th("Name"), th(""), ...sideHeads(runs, false)], said)
      : el("p", {}, "Nothing differs: settings, scenario, seed, engine and version are the same."),
    el("details", {}, el("summary", {}, `${int(equal.length)} equal`), el("dl", { class: "facts-grid" }, ...same)),
  ];
}

// ---- counts

const COUNTS = [
  ["sent", {}],
  ["ok", { finish: "stop,length" }],
  ["failed", { finish: "error,timeout" }],
  ["refused", { finish: "rejected" }],
  ["cancelled", { finish: "abort" }],
  ["incomplete", null],
];

export function counts({ runs }) {
  const cell = (side, name, filters) => {
    const value = side.reconciliation[name];
    return el("td", { class: "num" }, filters && value ? el("a", { href: listOf(side, filters) }, int(value)) : int(value));
  };
  const rows = COUNTS.filter(
    ([name]) => name === "sent" || name === "ok" || runs.some((side) => side.reconciliation[name]),
  ).map(([name, filters]) => el("tr", {}, rowHead(name), ...runs.map((side) => cell(side, name, filters))));
  const verdicts = runs.map((side) =>
    el("td", { class: "num", title: side.verdict_reason }, side.verdict ? verdictTag(side.verdict) : side.run.status),
  );
  rows.unshift(el("tr", {}, rowHead("verdict", runs[0].side ? "of the whole run" : null), ...verdicts));
  return grid([th(""), ...sideHeads(runs, true)], rows, true);
}

// ---- figures

const LATENCIES = [
  ["client.ttft_due_ms", "TTFT from due", "ttft_ms", "first token − due, as the client saw it"],
  ["client.ttft_ms", "TTFT", "ttft_ms", "first token − sent, as the client saw it"],
  ["client.tpot_ms", "TPOT", "tpot_ms", "(last token − first token) / (output tokens − 1)"],
  ["client.itl_ms", "ITL", null, "gaps between successive tokens, over all tokens"],
  ["client.e2e_ms", "E2E", "e2e_ms", "last token − sent, as the client saw it"],
  ["client.ntpot_ms", "E2E a token", null, "E2E / output tokens"],
  ["server.queue_ms", "Queue", "queue_ms", "first admission − received, as the server saw it"],
];
const QS = ["p50", "p95", "p99"];
const FIGURES = [
  ["goodput.per_s", "Goodput, requests/s", 1, null],
  ["goodput.attainment", "Attainment, %", 100, null],
  ["goodput.attainment_admitted", "Attainment of those not refused, %", 100, null],
  ["goodput.fluid", "Fluid answers, %", 100, null, MEANS.Fluid],
  ["throughput.offered_s", "Offered, requests/s", 1, null, MEANS.Offered],
  ["throughput.requests_s", "Answered, requests/s", 1, { finish: "stop,length" }],
  ["throughput.output_tok_s", "Output, tok/s", 1, { sort: "-output_tokens" }],
  ["fairness.jain", "Jain’s index of service", 1, null],
  ["fairness.drift.service", "Service drift while backlogged, units", 1, null, MEANS["Service drift"]],
  ["fairness.slowdown_ratio.value", "Most / least slowed tenant", 1, null],
  ["fairness.starvation.longest_ms", "Longest wait, ms", 1, { sort: "-queue_ms" }],
  ["fairness.starvation.over", "Waited over the TTFT bound", 1, { sort: "-queue_ms" }],
  ["fairness.inversions.inverted", "Priority inversions", 1, null],
  ["interference.share", "Decode time lost to prefills, %", 100, null],
  ["waste.preemptions_a_request", "Preemptions a request", 1, { min_preemptions: 1 }],
  ["waste.recomputed_share", "Recomputed tokens, %", 100, { min_preemptions: 1 }],
  ["waste.prefix_hit_rate", "Prefix hits, % of prompt tokens", 100, { sort: "-cached_tokens" }],
  ["waste.kv_used.mean", "KV memory in use, %", 100, null],
  ["waste.idle_share", "Time without a step, %", 100, null],
  ["steps.budget_used", "Token budget used, %", 100, null],
];

export function figures({ runs, metrics }) {
  const known = new Map(metrics.map((row) => [row.name, row]));
  const rows = LATENCIES.flatMap(([name, label, key, formula]) =>
    QS.map((q) => known.get(`percentiles.${name}.${q}`))
      .map((row, index) => ({
        row,
        label: `${label} ${QS[index]}`,
        unit: "ms",
        times: 1,
        formula,
        filters: key && ((value) => beyond(key, value)),
        note: name.startsWith("client") ? "; the list is by the server’s clock" : "",
      }))
      .filter(({ row }) => row && row.values.some((value) => value !== null)),
  );
  for (const [name, label, times, filters, formula] of FIGURES) {
    const row = known.get(name);
    if (row && row.values.some((value) => value))
      rows.push({ row, label, unit: "", times, formula, filters: filters && (() => filters) });
  }
  return figureTable(runs, "Figure", rows);
}

/** The requests at a percentile and beyond it, the slowest first. */
const beyond = (key, value) => ({ [`min_${key}`]: Math.floor(value), sort: `-${key}` });

export function tenants({ runs, tenants: list }) {
  const rows = list.map((row) => ({
    row,
    label: row.name,
    unit: "ms",
    times: 1,
    count: row.n.map((n, index) => `${int(n || 0)} of ${int(row.requests[index] || 0)}`).join(" / "),
    filters: () => ({ tenant: row.name, sort: "-ttft_ms" }),
  }));
  return figureTable(runs, "Tenant", rows);
}

function figureTable(sides, first, rows) {
  const heads = [th(first), el("th", { class: "num", scope: "col" }, sideName(sides, 0))];
  sides.slice(1).forEach((_, place) => {
    const index = place + 1;
    heads.push(
      el("th", { class: "num", scope: "col" }, sideName(sides, index)),
      th("Δ to A", true, "relative to A, of shares in points; exact in the tooltip"),
      th("95 % interval", true, "of Δ"),
      th("Reading"),
    );
  });
  heads.push(th("n", true, "values that the figure is of"));
  return grid(
    heads,
    rows.map((each) => figureRow(sides, each)),
  );
}

function figureRow(sides, { row, label, unit, times, formula = null, filters, count = null, note = "" }) {
  const cells = sides.flatMap((side, index) => {
    const value = row.values[index];
    const mine = [valueCell(side, row, index, times, unit, filters, note)];
    return index
      ? [
          ...mine,
          changeCell(row, index, times, unit),
          intervalCell(row, index, times),
          readingCell(row.reading[index]),
        ]
      : mine;
  });
  return el("tr", {}, rowHead(label, formula), ...cells, el("td", { class: "num mut" }, count || countText(row.n)));
}

function valueCell(side, row, index, times, unit, filters, note) {
  const value = row.values[index];
  if (value === null) return el("td", { class: "num mut" }, NONE);
  const few = row.few[index];
  const title = `${value * times}${unit && ` ${unit}`}${few ? ", few samples" : ""}`;
  const text = /^fairness.*(over|inverted)$/.test(row.name) ? int(value) : sig3(value * times);
  return el(
    "td",
    { class: few ? "num few" : "num", title },
    filters ? el("a", { href: listOf(side, filters(value)), title: title + note }, text) : text,
  );
}

const signed = (value, text) => (value > 0 ? `+${text}` : value < 0 ? `−${text}` : text);
const shareText = (value) => signed(value, percent(Math.abs(value)));
/** Shares differ in points, all else in % of A. */
const unitOf = (times) => (times > 1 ? "points" : "%");

function changeCell(row, index, times, unit) {
  const difference = row.difference[index];
  const change = times > 1 ? difference : row.relative[index];
  const exact = difference === null ? null : `${signed(difference, String(Math.abs(difference * times)))}${unit && ` ${unit}`}`;
  return el(
    "td",
    { class: "num", title: exact },
    change === null ? NONE : `${shareText(change)} ${unitOf(times)}`,
  );
}

function intervalCell(row, index, times) {
  const bounds = row[times > 1 ? "interval" : "relative_interval"][index];
  const text = bounds ? `[${bounds.map(shareText).join(", ")}] ${unitOf(times)}` : NONE;
  return el("td", { class: bounds ? "num" : "num mut", title: bounds ? null : "a figure of the whole run: no interval" }, text);
}

const READINGS = {
  better: ["✓ better", "better"],
  worse: ["✗ worse", "worse"],
  unclear: ["≈ no clear difference", "none"],
  too_few: ["n too small", "none"],
};

function readingCell(word) {
  if (!word) return el("td", { class: "mut" }, NONE);
  const [text, tone] = READINGS[word];
  return el("td", {}, el("span", { class: "reading", "data-reading": tone }, text));
}

function countText(n) {
  if (n.every((count) => count === null)) return "";
  return n.every((count) => count === n[0]) ? int(n[0]) : n.map((count) => int(count || 0)).join(" / ");
}
