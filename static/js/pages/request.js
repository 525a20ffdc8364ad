// One request: its lifecycle on a bar, where its time went, its steps and events. Asked again each second until it has ended.

import { $, el, replace, setAttr, setHidden, setText, swatch, table } from "../dom.js";
import { get } from "../api.js";
import { int, ms, NONE, percent, plural, requestUrl, shortId, sig3, valueText, when, zone } from "../format.js";
import { drawLegend } from "../panels/legend.js";
import { factsTable } from "../panels/report_tables.js";
import { outcomeTag } from "../panels/verdict.js";
import { waterfall } from "../panels/waterfall.js";
import { startShell } from "../shell.js";
import { REASONS, SHORT } from "../words.js";

startShell();
const id = document.body.dataset.subject;
const path = `/api/requests/${encodeURIComponent(id)}`;
const SHOWN = 200;
const AGAIN_MS = 1000;
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

setAttr($("#json"), "href", path);

function ledger(request) {
  const whole = request.e2e_ms;
  const waits = REASONS.filter((reason) => request.waits[reason] > 0).map((reason) => [
    `waited for ${SHORT[reason]}`,
    LEDGER_WORDS[reason],
    request.waits[reason],
    `r-${reason}`,
  ]);
  const parts = PARTS.filter(([key]) => request[key] > 0).map(([key, name, words, property]) => [
    name,
    words,
    request[key],
    property,
  ]);
  const rows = [...waits, ...parts];
  if (rows.length === 0) return [el("p", { class: "empty" }, unbooked(request))];
  const nodes = rows.flatMap(([name, words, length, property]) => [
    swatch(property),
    el("span", {}, name, el("small", {}, ` — ${words}`)),
    el("span", { class: "num" }, ms(length)),
    el("span", { class: "num mut" }, whole ? `${percent(length / whole)} %` : ""),
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

/** Why there are no parts: they are booked by the engine that ends a request, and this one had none. */
function unbooked(request) {
  if (request.state !== "finished") return "Nothing is booked yet: the parts are told at the end.";
  if (request.finish === "rejected") return "It was refused at the door and never waited.";
  return `Not known: ${request.detail || "the process that kept the books died"}, and the books of its time went with it.`;
}

function facts(request) {
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

function slicesTable(slices) {
  const rows = slices.step.slice(0, SHOWN).map((_, i) => i);
  const total = slices.step.length;
  setText($("#slices .note"), total > SHOWN ? `the first ${int(SHOWN)} of ${plural(total, "slice")}` : plural(total, "slice"));
  return table(
    [
      { label: "Step", num: true, cell: (i) => int(slices.step[i]) },
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

function eventsTable(events) {
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

function matesTable(mates) {
  return table(
    [
      {
        label: "Request",
        cell: (mate) =>
          mate.id ? el("a", { class: "mono", href: requestUrl(mate.id), title: mate.id }, shortId(mate.id)) : NONE,
      },
      { label: "Steps shared", num: true, cell: (mate) => int(mate.steps) },
    ],
    mates.slice(0, 10),
  );
}

function show(request) {
  const ended = request.state === "finished";
  const last = Math.max(
    0,
    ...request.events.map((event) => event.t_ms || 0),
    ...request.slices.t_ms.map((t, i) => t + request.slices.ms[i]),
  );
  const until = request.e2e_ms === null ? last : request.e2e_ms;
  replace($("#tags"), outcomeTag(request), el("small", {}, when(request.received)));
  setHidden($("#cancel"), ended);
  setText($("#summary"), `queue ${ms(request.queue_ms)} · first token ${ms(request.ttft_ms)} · E2E ${ms(request.e2e_ms)}`);
  replace(
    $("#life .body"),
    request.events.length ? waterfall(request, until) : el("p", { class: "empty" }, "It never reached the queue."),
  );
  const reasons = REASONS.filter((reason) => request.waits[reason] > 0).map((reason) => [
    `r-${reason}`,
    `waits: ${SHORT[reason]}`,
  ]);
  drawLegend($("#life .legend"), [
    ...reasons,
    ["prefill", "prefill"],
    ["decode", "decode"],
    ["line", "stalled"],
    ["preempted", "preempted"],
    ["fg", "first token", true],
  ]);
  replace($("#ledger .body"), ...ledger(request));
  replace($("#facts .body"), ...facts(request));
  replace($("#slices .body"), slicesTable(request.slices));
  replace($("#events .body"), eventsTable(request.events));
  const mates = request.batch_mates || [];
  replace($("#mates .body"), matesTable(mates));
  setHidden($("#mates"), mates.length === 0);
  setHidden($("#halves"), false);
  if (!ended) setTimeout(load, AGAIN_MS);
}

async function load() {
  try {
    show(await get(path));
  } catch (error) {
    replace($("#life .body"), el("p", { class: "error" }, error.message));
  }
}

$("#cancel").addEventListener("click", async () => {
  const response = await fetch(path, { method: "DELETE" });
  if (!response.ok) setText($("#summary"), `could not be cancelled: HTTP ${response.status}`);
});
load();
