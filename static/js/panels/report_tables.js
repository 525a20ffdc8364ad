// The tables of a report. Every figure that stands for requests leads to the filter that lists them. Pure: data in, nodes out.

import { query } from "../api.js";
import { breakable, el, swatch, table } from "../dom.js";
import { int, ms, NONE, percent, percents, plural, sig3, valueText } from "../format.js";
import { REASONS, SHORT } from "../words.js";

export const listUrl = (run, filters = {}) => `/requests${query({ run, ...filters })}`;

export const MEANS = {
  Fluid: "fluidity: the share of an answer's tokens that came by their deadline; fluid is 0.9 and more",
  Offered: "requests due a second, whatever the server does",
  "Service drift": "how far what two waiting tenants were given grew apart; units: prompt + 2 × output tokens",
};

export function factsTable(rows) {
  const body = rows.map(([name, value]) => el("tr", {}, el("th", { scope: "row", title: MEANS[name] }, name), el("td", {}, value)));
  return el("table", { class: "facts-table" }, el("tbody", {}, ...body));
}

function factsGrid(rows) {
  const pairs = rows.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));
  return el("dl", { class: "facts-grid" }, ...pairs);
}

// ---- reconciliation

const SENT = [
  ["ok", "answered well"],
  ["failed", "HTTP or stream error, empty stream, time-out"],
  ["refused", "shed by the server"],
  ["cancelled", "by the client"],
  ["incomplete", "in flight at the stop"],
];

export function reconciliation(run, found) {
  const rows = [
    { name: "sent", note: "by the load generator", value: found.sent },
    ...SENT.map(([name, note]) => ({ name: `${name === "ok" ? "=" : "+"} ${name}`, note, value: found[name] })),
    { name: "server rows", note: "requests in the records", value: found.server_rows, href: listUrl(run) },
    { name: "difference", note: "server rows − requests that reached it", value: found.difference, bad: Boolean(found.difference) },
  ];
  const count = (row) =>
    row.href
      ? el("a", { href: row.href }, int(row.value))
      : row.bad
        ? el("b", { class: "tag", "data-tone": "bad" }, int(row.value))
        : int(row.value);
  const nodes = [
    table(
      [
        { label: "", cell: (row) => row.name },
        { label: "Requests", num: true, cell: count },
        { label: "", class: "mut wrap", cell: (row) => row.note },
      ],
      rows,
    ),
  ];
  for (const [name, words] of [
    ["broken", "failed"],
    ["missing_on_server", "missing on the server"],
    ["missing_on_client", "missing on the client"],
    ["repeated_on_server", "twice on the server"],
    ["unreached", "never reached the server"],
  ]) {
    if (found[name] && found[name].length)
      nodes.push(named(words, found[name], found.counts ? found.counts[name] : found[name].length));
  }
  return nodes;
}

function named(words, list, count) {
  const shown = list.slice(0, 20);
  const told = (item) => (typeof item === "string" ? item : `${item.id}: ${item.status}${item.error ? ` · ${item.error}` : ""}`);
  const items = shown.map((item) => el("li", { class: "mono" }, told(item)));
  const rest = count > shown.length ? el("p", { class: "hint" }, `showing ${int(shown.length)} of ${int(count)}`) : null;
  return el("details", {}, el("summary", {}, `${plural(count, "request")} ${words}`), el("ul", {}, ...items), rest);
}

// ---- percentiles

const METRICS = [
  ["ttft_ms", "TTFT", "first token − sent (client), − received (server)", "-ttft_ms"],
  ["ttft_due_ms", "TTFT from due", "first token − due: what an open loop's user waits", "-ttft_ms"],
  ["tpot_ms", "TPOT", "(last token − first token) / (output tokens − 1)", "-tpot_ms"],
  ["itl_ms", "ITL", "gaps between successive tokens, over all tokens", null],
  ["e2e_ms", "E2E", "last token − sent (client), finished − received (server)", "-e2e_ms"],
  ["ntpot_ms", "E2E a token", "E2E / output tokens (normalised latency)", null],
  ["queue_ms", "Queue", "first admission − received", "-queue_ms"],
  ["lateness_ms", "Lateness", "sent − due: the generator's own delay", null],
];
const QS = ["p50", "p90", "p95", "p99"];

export function percentiles(run, { client, server }) {
  const rows = METRICS.filter(([key]) => client[key] || server[key]);
  const head = el(
    "tr",
    {},
    el("th", {}, ""),
    ...["client", "server"].flatMap((side) => [...QS, "n"].map((q) => el("th", { class: "num" }, `${side} ${q}`))),
  );
  const body = rows.map(([key, label, formula, sort]) =>
    el("tr", {}, el("td", { title: formula }, label), ...cells(run, client[key], null), ...cells(run, server[key], sort)),
  );
  const small = rows.some(([key]) => [client[key], server[key]].some((figures) => figures && figures.few.length && figures.n));
  const note = el(
    "p",
    { class: "hint" },
    "Milliseconds, over requests that were answered well. ",
    small ? "* few samples: fewer than one is expected beyond this percentile." : "",
  );
  return [el("table", {}, el("thead", {}, head), el("tbody", {}, ...body)), note];
}

function cells(run, figures, sort) {
  if (!figures) return [...QS, "n"].map(() => el("td", { class: "num mut" }, NONE));
  const values = QS.map((q) => {
    const few = figures.few.includes(q) && figures.n > 0;
    const title = figures[q] === null ? `no value: n = ${figures.n}` : `${figures[q]} ms, n = ${figures.n}${few ? ", few samples" : ""}`;
    const text = figures[q] === null ? NONE : sig3(figures[q]);
    return el(
      "td",
      { class: few ? "num few" : "num", title },
      sort && figures[q] !== null ? el("a", { href: listUrl(run, { sort }) }, text) : text,
    );
  });
  return [...values, el("td", { class: "num mut" }, int(figures.n))];
}

// ---- waits, goodput, steps

export function waits(run, found) {
  const rows = Object.entries(found).sort((a, b) => b[1].ms - a[1].ms);
  if (rows.length === 0) return [el("p", { class: "empty" }, "Nobody waited.")];
  const most = Math.max(...rows.map(([, wait]) => wait.share));
  const said = percents(rows.map(([, wait]) => wait.share));
  return [
    hbars(
      rows.map(([reason, wait], index) => ({
        label: SHORT[reason] || reason,
        property: REASONS.includes(reason) ? `r-${reason}` : "mut",
        share: wait.share / most,
        href: listUrl(run, { wait: reason, sort: "-queue_ms" }),
        figure: `${said[index]} % · ${ms(wait.ms)} · ${plural(wait.requests, "request")}`,
      })),
    ),
  ];
}

/** Bars of shares. rows: { label, share 0..1, property, figure, href }. */
function hbars(rows) {
  const nodes = rows.flatMap((row) => {
    const fill = el("i");
    fill.style.setProperty("width", `${100 * row.share}%`);
    fill.style.setProperty("background", `var(--${row.property})`);
    const label = row.href ? el("a", { href: row.href }, row.label) : row.label;
    const name = el("span", { class: "reason" }, swatch(row.property), label);
    return [name, el("div", { class: "track" }, fill), el("span", { class: "figure" }, row.figure)];
  });
  return el("div", { class: "hbars" }, ...nodes);
}

function cachedWords({ cached_tokens: cached, prompt_tokens: prompt }) {
  if (cached === null || !prompt) return NONE;
  return `${percent(cached / prompt)} % of the prompt tokens; the prompts begin with a nonce of the run, so the cache starts cold`;
}

function admittedWords(good) {
  return good.n_admitted === good.n ? "" : `; ${percent(good.attainment_admitted)} % of those not refused`;
}

export function goodput(run, { goodput: good, throughput, run: { progress } }) {
  const capacity = (progress || {}).capacity;
  const from = good.slo.ttft_from === "due" ? "from due" : "from sent";
  return [
    factsTable([
      ["SLO", `TTFT ${from} ≤ ${ms(good.slo.ttft_ms)} and TPOT ≤ ${ms(good.slo.tpot_ms)}`],
      ["Goodput", `${sig3(good.per_s)} requests/s met it`],
      [
        "Attainment",
        `${percent(good.attainment)} % of ${plural(good.n, "request")} sent (failed and refused ones count as missed)${admittedWords(good)}`,
      ],
      ["Fluid", `${percent(good.fluid)} % of the answers had 9 of 10 tokens by their deadline (fluidity index)`],
      ["Offered", throughput.offered_s ? `${sig3(throughput.offered_s)} requests/s${capacity ? `; measured capacity: ${sig3(capacity)} tokens/s` : ""}` : "by users who wait for their answers"],
      ["Requests", `${sig3(throughput.requests_s)} answered a second`],
      ["Output", `${sig3(throughput.output_tok_s)} tok/s, ${int(throughput.output_tokens)} tokens`],
      ["Prompts", `${sig3(throughput.prompt_tok_s)} tok/s, ${int(throughput.prompt_tokens)} tokens`],
      ["From prefix cache", cachedWords(throughput)],
      ["Over", throughput.duration_s === null ? NONE : `${sig3(throughput.duration_s)} s, first sent to last ended`],
    ]),
  ];
}

export function steps(found, waste) {
  const bound = Object.entries(found.binding);
  const most = Math.max(0, ...bound.map(([, share]) => share));
  return [
    factsTable([
      ["Steps", int(found.n)],
      ["Duration", `p50 ${ms(found.ms.p50)} · p95 ${ms(found.ms.p95)} · longest ${ms(found.ms.max)}`],
      [
        "Budget used",
        `${percent(found.budget_used)} % · ${int(found.prefill_tokens)} prefill and ${int(found.decode_tokens)} decode tokens`,
      ],
      ["Most at once", `${int(found.running_max)} running, ${int(found.waiting_max)} waiting`],
      ["KV memory", waste.kv_used ? `${percent(waste.kv_used.mean)} % in use, at most ${percent(waste.kv_used.peak)} %` : NONE],
      ["Preemptions", preemptionWords(found, waste)],
      ["No step ran", `${percent(waste.idle_share)} % of the time`],
      ["Late on this host", lateWords(found)],
    ]),
    el("p", { class: "hint" }, "What ended admission, share of steps:"),
    hbars(
      bound.map(([reason, share], index) => ({
        label: reason === "step" ? "nobody left waiting" : SHORT[reason] || reason,
        property: `r-${reason}`,
        share: share / most,
        figure: `${percents(bound.map(([, each]) => each))[index]} %`,
      })),
    ),
  ];
}

function lateWords({ host_late: late, host_late_time: time }) {
  return late && time ? `${plural(late, "step")}, by ${percent(time)} % of all step time` : plural(late, "step");
}

function preemptionWords(found, waste) {
  if (!found.preemptions) return "0";
  const rate = `${sig3(waste.preemptions_a_request)} a request, ${sig3(waste.preemptions_a_1000_steps)} in 1,000 steps`;
  return `${int(found.preemptions)} · ${rate} · ${percent(waste.recomputed_share)} % of the tokens were computed twice`;
}

export function whatWasRun({ run, settings, asked }) {
  const mono = (text) => el("code", {}, ...breakable(text));
  return [
    factsGrid([
      ["Scenario", run.scenario || run.name || NONE],
      ["Seed", int(run.seed)],
      ["Target", run.target || NONE],
      ["Processes", int(run.processes)],
      ...[run.parameters || {}, settings].flatMap(Object.entries).map(([name, value]) => [
        mono(name),
        name in asked ? el("b", {}, `${valueText(value)} *`) : valueText(value),
      ]),
    ]),
  ];
}
