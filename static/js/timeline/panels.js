// The two cards under the drawing, the head line, tips and the table: figures in words. Draws no pixel.

import { $, drawLegend, el, replace, setText } from "../dom.js";
import { int, ms, NONE, percent, plural, requestOf, requestUrl, sig3, when } from "../format.js";
import { query } from "../api.js";
import { REASONS, SHORT } from "../words.js";
import { summarise } from "./area.js";
import { PHASES } from "./bars.js";
import { firstStep } from "./steps.js";

const second = (t) => `${t.toFixed(3)} s`;
const seconds = (value) => ms(value * 1000);

const facts = (entries) =>
  el("dl", { class: "facts" }, ...entries.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));

/** The wall clock at a second of the axis; of a simulated run there is none. */
function wallText(page, t) {
  if (!page.records || page.records.start === null || (page.run && page.run.simulated)) return "";
  return when(new Date(page.records.start + t * 1000).toISOString());
}

export function headText(view) {
  return `${view.from.toFixed(3)} s – ${view.to.toFixed(3)} s (${seconds(view.span)})`;
}

/** What is not drawn, or not drawn as it is. */
export function noteText(page, merged) {
  const { records, steps, view } = page;
  const shown = records.bars.count;
  const said = [];
  if (records.requestsTruncated) said.push("only the first 5,000 requests of this window: zoom in");
  if (shown < records.total) said.push(`showing the longest ${int(shown)} of ${plural(records.total, "bar")}: zoom in`);
  if (steps.more) said.push(`steps shown up to ${second(steps.t[steps.t.length - 1])}, the first ${int(steps.t.length)}`);
  if (merged) said.push("several steps share a pixel: largest prefill, mean decode");
  if (page.error) said.push(`not refreshed: ${page.error}`);
  const wall = wallText(page, view.from);
  if (wall) said.push(`from ${wall}`);
  return said.join(" · ");
}

/** How a bar ended, where that is more than the next phase. */
function outcome(bars, i) {
  if (bars.isOpen(i)) return "still going";
  if (bars.reason[i]) return `finished: ${bars.reason[i]}`;
  return bars.evicted(i) && "preempted";
}

export function drawChosenCard(page) {
  const body = $("#chosen .body");
  const { bars } = page.records;
  const i = page.chosen;
  setText(
    $("#chosen small"),
    i < 0 ? "" : `phase ${int(bars.place(i) + 1)} of ${int(bars.place(bars.last.get(bars.id[i])) + 1)} of its request`,
  );
  if (i < 0) {
    const lost = page.state.sel ? `Request ${page.state.sel} has no bar here. ` : "";
    replace(
      body,
      el(
        "p",
        { class: "mut" },
        `${lost}Click a bar to see its request; the keys , and . then go to the phase before and after.`,
      ),
    );
    return;
  }
  const end = bars.end(i, page.now);
  replace(
    body,
    facts([
      ["Request", el("a", { class: "mono", href: requestUrl(bars.id[i]) }, requestOf(bars.id[i]))],
      ["Phase", PHASES[bars.phase[i]]],
      ["Lasted", seconds(end - bars.t0[i])],
      ["From", second(bars.t0[i])],
      ["Slot", bars.slot[i] < 0 ? NONE : int(bars.slot[i])],
      ["Tenant", bars.tenant[i]],
      ["Then", outcome(bars, i) || PHASES[bars.phase[bars.after[i]]] || NONE],
    ]),
  );
}

export function drawAreaCard(page) {
  const range = page.state.area || [page.view.from, page.view.to];
  const found = summarise(page.records.bars, page.steps, range, page.now);
  const least = page.records.truncated || page.steps.more ? "≥ " : "";
  setText($("#area h2"), page.state.area ? "Selected area" : "In view");
  setText($("#area small"), `${second(range[0])} – ${second(range[1])} (${seconds(range[1] - range[0])})`);
  replace(
    $("#area .body"),
    facts([
      ["Requests", arrivals(page, range, `${least}${int(found.requests)}`)],
      ["Σ prefill tokens", `${least}${int(found.prefill)}`],
      ["Σ decode tokens", `${least}${int(found.decode)}`],
      ["Queued", `${least}${seconds(found.queued)}`],
      ["Preempted", `${least}${seconds(found.preempted)}`],
      ["Steps", `${least}${int(found.steps)}`],
      ["Step time p95", ms(found.stepP95)],
      ["Budget used", found.used === null ? NONE : `${percent(found.used)} %`],
    ]),
  );
}

/** Their rows; the records can be asked for who arrived in a window, not for who was alive in it. */
function arrivals(page, [from, to], text) {
  if (page.records.start === null) return text;
  const iso = (t) => new Date(Math.max(0, page.records.start + t * 1000)).toISOString();
  const href = `/requests${query({ run: page.run && page.run.id, since: iso(from), until: iso(to), sort: "received" })}`;
  return el("span", {}, `${text} `, el("a", { href, title: "The rows of those that arrived in it" }, "arrivals"));
}

export function barTip(page, i) {
  const { bars } = page.records;
  const slot = bars.slot[i] < 0 ? "" : ` · slot ${bars.slot[i]}`;
  const then = outcome(bars, i);
  const lines = [
    requestOf(bars.id[i]),
    `tenant ${bars.tenant[i]}${slot}`,
    `${PHASES[bars.phase[i]]} ${seconds(bars.end(i, page.now) - bars.t0[i])}, from ${second(bars.t0[i])}`,
    then && !bars.isOpen(i) ? `then ${then}` : then,
  ];
  return [...lines, wallText(page, bars.t0[i])].filter(Boolean).join("\n");
}

export function stepTip(page, t) {
  const { steps } = page;
  const i = firstStep(steps, t);
  const running = i < steps.t.length && steps.t[i] - steps.ms[i] / 1000 <= t;
  if (!running) return `${second(t)}\nno step ran`;
  const kv = steps.kv_used[i] === null || !steps.blocks[i] ? "" : ` · KV ${percent(steps.kv_used[i] / steps.blocks[i])} %`;
  const waits = Object.keys(steps.by_reason).filter((reason) => steps.by_reason[reason][i]);
  const why = waits.length
    ? `\n${waits.map((reason) => `${SHORT[reason]} ${int(steps.by_reason[reason][i])}`).join(", ")}`
    : "";
  const wall = wallText(page, t);
  return `${second(t)} · step ${int(steps.step[i])} · ${sig3(steps.ms[i])} ms\nprefill ${int(steps.prefill[i])} · decode ${int(steps.decode[i])} of ${int(steps.budget[i])}\n${int(steps.running[i])} running · ${int(steps.waiting[i])} waiting${kv}${why}${wall ? `\n${wall}` : ""}`;
}

export const TABLE = [
  { label: "Request", cell: (row) => el("a", { href: requestUrl(row.id), class: "mono" }, row.id) },
  { label: "Tenant", cell: (row) => row.tenant },
  { label: "Slot", num: true, cell: (row) => (row.slot < 0 ? NONE : int(row.slot)) },
  { label: "Phase", cell: (row) => row.phase },
  { label: "From", num: true, cell: (row) => second(row.t0) },
  { label: "Lasted", num: true, cell: (row) => `${seconds(row.lasted)}${row.open ? ", open" : ""}` },
  { label: "End", cell: (row) => row.reason || "" },
];

/** The first 50 bars in view, for the table. */
export function tableRows(page) {
  const { bars } = page.records || { bars: null };
  if (!bars) return [];
  const rows = [];
  for (const i of bars.within(page.view.from, page.view.to, page.now)) {
    if (rows.length === 50) break;
    const row = { phase: PHASES[bars.phase[i]], lasted: bars.end(i, page.now) - bars.t0[i], open: bars.isOpen(i) };
    for (const name of ["id", "tenant", "slot", "t0", "reason"]) row[name] = bars[name][i];
    rows.push(row);
  }
  return rows;
}

/** The legend: phases, memory, and the reasons that occur. */
export function drawKey(page) {
  const present = REASONS.filter((reason) => page.steps.by_reason[reason]);
  const phases = ["queued", "prefill", "decode"].map((phase) => [phase, phase]);
  drawLegend($(".legend"), [
    ...phases,
    ["preempted", "preempted ▶"],
    ["kv", "KV blocks", true],
    ...present.map((reason) => [`r-${reason}`, `waits: ${SHORT[reason]}`]),
  ]);
}
