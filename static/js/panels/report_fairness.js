// Between tenants, and between prefills and decodes: who got how much, and who was in whose way. Pure: data in, nodes out.

import { el, table } from "../dom.js";
import { int, ms, NONE, percent, percents, plural, requestOf, requestUrl, shortId, sig3 } from "../format.js";
import { SHORT } from "../words.js";
import { factsTable, listUrl } from "./report_tables.js";

const few = (figures, q) => (figures.few.includes(q) && figures.n > 0 ? "*" : "");

/** The two reasons that a tenant waited longest for. */
function topWaits(waits) {
  const whole = Object.values(waits).reduce((sum, value) => sum + value, 0);
  const rows = Object.entries(waits).sort((a, b) => b[1] - a[1]);
  const shares = percents(rows.map(([, value]) => value / whole));
  const said = rows.slice(0, 2).map(([reason], index) => `${SHORT[reason] || reason} ${shares[index]} %`);
  return said.join(", ") || NONE;
}

export function fairness(run, found) {
  const tenants = Object.entries(found.tenants);
  const names = tenants.map(([name]) => name);
  const shares = percents(tenants.map(([, t]) => t.share));
  const waited = (name) => listUrl(run, { tenant: name, sort: "-queue_ms" });
  const columns = [
    { label: "Tenant", cell: ([name]) => el("a", { href: listUrl(run, { tenant: name }) }, name) },
    { label: "Requests", num: true, cell: ([, t]) => int(t.requests) },
    { label: "Service", num: true, cell: ([, t]) => int(t.service), title: "prompt + 2 × output tokens" },
    { label: "Share", num: true, cell: ([name]) => `${shares[names.indexOf(name)]} %` },
    { label: "TTFT p50 ms", num: true, cell: ([, t]) => sig3(t.ttft_ms.p50) + few(t.ttft_ms, "p50") },
    { label: "TTFT p95 ms", num: true, cell: ([, t]) => sig3(t.ttft_ms.p95) + few(t.ttft_ms, "p95") },
    {
      label: "Longest wait",
      num: true,
      cell: ([name, t]) => (t.longest_wait_ms === null ? NONE : el("a", { href: waited(name) }, ms(t.longest_wait_ms))),
    },
    { label: "Waited for", class: "mut", cell: ([, t]) => topWaits(t.waits_ms) },
  ];
  return [table(columns, tenants), factsTable(betweenTenants(run, found, tenants.length))];
}

function betweenTenants(run, found, tenants) {
  const { jain, drift, slowdown_ratio: ratio, starvation, inversions } = found;
  const rows = [];
  if (tenants > 1) rows.push(["Jain's index", `${sig3(jain)} of service by weight (1: all got the same)`]);
  if (drift && drift.service !== null)
    rows.push([
      "Service drift",
      `up to ${int(drift.service)} units between two tenants while both waited${windowWords(drift)}`,
    ]);
  if (ratio.value !== null)
    rows.push([
      "Slowdown",
      `the most slowed tenant ${sig3(ratio.value)} × the least, by the median of ${ratio.of === "slowdown" ? "E2E / E2E alone" : "E2E a token"}`,
    ]);
  if (starvation)
    rows.push([
      "Starvation",
      `${int(starvation.over)} of ${plural(starvation.n, "request")} waited over ${ms(starvation.threshold_ms)}, the longest ${ms(starvation.longest_ms)}`,
    ]);
  if (inversions)
    rows.push([
      "Priority inversions",
      `${int(inversions.inverted)} of ${plural(inversions.admissions, "admission")} went before a better class that was held back`,
    ]);
  return rows;
}

function windowWords({ in_window: most, window_s: seconds }) {
  return most === null ? "" : `; up to ${int(most)} within ${sig3(seconds)} s`;
}

/** How much prefills stretched the decodes beside them. */
export function interference(found) {
  if (!found) return [el("p", { class: "empty" }, "No mixed step had a pure-decode step of its size to compare with.")];
  const columns = [
    { label: "At", num: true, cell: (step) => `${sig3(step.t_s)} s` },
    { label: "Took ms", num: true, cell: (step) => sig3(step.ms) },
    { label: "Alone ms", num: true, cell: (step) => sig3(step.alone_ms), title: "the median of like pure-decode steps" },
    { label: "Decodes", num: true, cell: (step) => int(step.decodes) },
    { label: "Prefill", num: true, cell: (step) => int(step.prefill_tokens), title: "prefill tokens in the step" },
    { label: "Of", class: "wrap", cell: (step) => el("span", {}, ...whose(step.prefilled)) },
  ];
  return [
    factsTable([
      ["Lost", `${percent(found.share)} % of all decode time went to prefills in the same step`],
      [
        "Stretched",
        `${ms(found.stretched_ms)} in ${comparedWords(found)}`,
      ],
    ]),
    el("p", { class: "hint" }, "The steps that stretched most:"),
    table(columns, found.worst),
  ];
}

function comparedWords({ compared, mixed_steps: mixed }) {
  if (compared === mixed) return plural(mixed, "mixed step");
  return `${int(compared)} of ${plural(mixed, "mixed step")}; the rest had nothing to compare with`;
}

function whose(prefilled) {
  const links = prefilled
    .slice(0, 2)
    .map(({ id }) => (id ? el("a", { href: requestUrl(id), title: id, class: "mono" }, shortId(requestOf(id))) : NONE));
  const rest = prefilled.length > 2 ? [` +${prefilled.length - 2}`] : [];
  return links.flatMap((link, index) => (index ? [", ", link] : [link])).concat(rest);
}
