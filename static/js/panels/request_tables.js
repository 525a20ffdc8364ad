// The tables of one request: where its time went, what it is, its slices, events and batch mates. A request's JSON in, nodes out.

import { el, swatch, table } from "../dom.js";
import { int, ms, NONE, percent, percents, requestUrl, shortId, sig3, valueText, when, zone } from "../format.js";
import { REASONS, SHORT } from "../words.js";
import { factsTable } from "./report_tables.js";
import { openStep } from "./step_card.js";
import { lostWords } from "./waterfall.js";

export const SLICES_SHOWN = 200;
const PARTS = [
  ["prefill_ms", "prefill", "computing its prompt", "prefill"],
  ["stalled_ms", "stalled", "running, but given no tokens in the step", "line"],
  ["decode_ms", "decode", "making its output", "decode"],
  ["preempted_ms", "preempted", "its blocks were taken back", "preempted"],
];
const LEDGER_WORDS = {
  step: "it arrived while a step was running, or its message was on its way",
  slots: "all places among the running were taken",
  token_budget: "the steps' tokens were spent on others",
  kv_blocks: "its blocks did not fit into the free KV memory",
  prefill_cap: "enough prompts were computed in the steps",
  quota: "its tenant had used its share",
  static_batch: "a batch was open, nobody joined it",
  engine_down: "the engine had died; it was submitted again",
  paused: "an operator held the engine",
};

export function ledger(request) {
  const whole = request.e2e_ms;
  const waits = REASONS.filter((reason) => request.waits[reason] > 0).map((reason) => [
    `waited for ${SHORT[reason]}`,
    LEDGER_WORDS[reason],
    request.waits[reason],
    `r-${reason}`,
  ]);
  const parts = PARTS.filter(([key]) => request[key] > 0).map(([key, name, words, property]) => [
    name,
    key === "preempted_ms" ? preemptions(request) || words : words,
    request[key],
    property,
  ]);
  const rows = [...waits, ...parts];
  if (rows.length === 0) return [el("p", { class: "empty" }, unbooked(request))];
  const said = percents(rows.map(([, , length]) => (whole ? length / whole : null)));
  const nodes = rows.flatMap(([name, words, length, property], index) => [
    swatch(property),
    el("span", {}, name, el("small", {}, ` — ${words}`)),
    el("span", { class: "num" }, ms(length)),
    el("span", { class: "num mut" }, whole ? `${said[index]} %` : ""),
  ]);
  const sum = rows.reduce((total, row) => total + row[2], 0);
  nodes.push(
    el("span", { class: "rule" }),
    el("span"),
    el("span", { class: "sum" }, request.e2e_ms === null ? "so far" : "E2E"),
    el("span", { class: "num sum" }, ms(request.e2e_ms === null ? sum : whole)),
    el("span"),
  );
  return [el("div", { class: "ledger" }, ...nodes)];
}

/** What each preemption took, and what of it was recomputed. */
function preemptions(request) {
  const found = request.events.flatMap((event, index) => {
    if (event.kind !== "RequestPreempted") return [];
    return [lostWords(event, request.events.slice(index + 1).filter((each) => each.sequence === event.sequence))];
  });
  return found.map((words) => words.replace(/^preempted: /, "")).join("; ");
}

/** Why there are no parts: they are booked by the engine that ends a request, and this one had none. */
function unbooked(request) {
  if (request.state !== "finished") return "Nothing is booked yet: the parts are told at the end.";
  if (request.finish === "rejected") return "It was refused at the door and never waited.";
  return `Not known: ${request.detail || "the process that kept the books died"}, and the books of its time went with it.`;
}

export function facts(request) {
  const client = request.client;
  const rows = [
    ["Received", el("span", { title: zone() }, when(request.received))],
    ["Run", request.run ? el("a", { href: `/runs/${encodeURIComponent(request.run)}` }, request.run) : NONE],
    ["Tenant, kind", `${request.tenant}, ${request.kind}`],
    ["Priority", `${int(request.priority)} (lower runs first)`],
    ["Policy", request.policy || NONE],
    [
      "Tokens",
      `${int(request.prompt_tokens)} prompt (${int(request.cached_tokens)} from the prefix cache), ${int(request.output_tokens)} of at most ${int(request.max_tokens)} output`,
    ],
    [
      "Latency",
      `queue ${ms(request.queue_ms)} · TTFT ${ms(request.ttft_ms)} · TPOT ${ms(request.tpot_ms)} · E2E ${ms(request.e2e_ms)}`,
    ],
    ["Preemptions", int(request.preemptions)],
    ["Deadline, time-out", `${ms(request.deadline_ms)}, ${ms(request.timeout_ms)}`],
    [
      "Endpoint",
      `${request.endpoint}${request.stream ? ", streamed" : ""}${request.status_code ? ` · HTTP ${request.status_code}` : ""}`,
    ],
    ["Model", request.model || NONE],
  ];
  if (request.sequences > 1) rows.push(["Sequences", int(request.sequences)]);
  if (request.ignored_fields.length) rows.push(["Ignored fields", request.ignored_fields.join(", ")]);
  if (request.client_request_id) rows.push(["Client's id", el("code", {}, request.client_request_id)]);
  if (client)
    rows.push([
      "Client saw",
      `${client.status} · TTFT ${ms(client.ttft_ms)} (from due ${ms(client.ttft_due_ms)}) · TPOT ${ms(client.tpot_ms)} · E2E ${ms(client.e2e_ms)} · ${int(client.output_tokens)} tokens${client.error ? ` · ${client.error}` : ""}`,
    ]);
  if (request.prompt_text)
    rows.push(["Prompt", el("details", {}, el("summary", {}, "show"), el("pre", { class: "box" }, request.prompt_text))]);
  if (request.output_text)
    rows.push(["Output", el("details", {}, el("summary", {}, "show"), el("pre", { class: "box" }, request.output_text))]);
  return [factsTable(rows)];
}

export function slicesTable(slices) {
  const rows = slices.step.slice(0, SLICES_SHOWN).map((_, i) => i);
  return table(
    [
      { label: "Step", num: true, cell: (i) => stepButton(slices, i) },
      { label: "At", num: true, cell: (i) => ms(slices.t_ms[i]) },
      { label: "Took", num: true, cell: (i) => ms(slices.ms[i]) },
      { label: "Kind", cell: (i) => slices.kind[i] },
      { label: "Tokens", num: true, cell: (i) => int(slices.tokens[i]) },
      { label: "In the batch", num: true, cell: (i) => int(slices.batch[i]) },
      { label: "Step's tokens", num: true, cell: (i) => int(slices.step_tokens[i]) },
    ],
    rows,
  );
}

/** Which step it was is known by its life and seq. */
function stepButton(slices, i) {
  const open = () => openStep(slices.boot[i], slices.seq[i]);
  return el("button", { type: "button", class: "quiet", title: "what this step did", onclick: open }, int(slices.step[i]));
}

export function eventsTable(events) {
  return table(
    [
      { label: "At ms", num: true, cell: (event) => (event.t_ms === null ? NONE : sig3(event.t_ms)) },
      { label: "Event", cell: (event) => event.kind },
      { label: "Boot, seq", num: true, cell: (event) => `${event.boot}, ${int(event.seq)}` },
      { label: "Data", class: "wrap mono", cell: (event) => dataText(event.data) },
    ],
    events,
  );
}

function dataText(data) {
  return Object.entries(data || {})
    .filter(([, value]) => value !== null && typeof value !== "object")
    .map(([name, value]) => `${name}=${typeof value === "number" ? value : valueText(value)}`)
    .join(" ");
}

export function matesTable(mates, own) {
  const id = (mate) => (mate.id ? el("a", { class: "mono", href: requestUrl(mate.id), title: mate.id }, shortId(mate.id)) : NONE);
  return table(
    [
      { label: "Request", cell: id },
      { label: "Tenant", cell: (mate) => mate.tenant || NONE },
      { label: "Steps shared", num: true, cell: (mate) => int(mate.steps) },
      { label: "Of its steps", num: true, cell: (mate) => `${percent(mate.steps / own)} %` },
    ],
    mates,
  );
}
