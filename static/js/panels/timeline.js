// Batch timeline: a row a slot, prefill and decode as bars, preemptions hatched and marked ▶; the queue as a density strip on
// top. Open bars are drawn to now: without that a live view looks as if the load were draining. Own canvas, own hit test.

import { $, $$, drawLegend, setAttr, setStyle, setText } from "../dom.js";
import { int, ms, plural, requestUrl, secondsOf } from "../format.js";
import { palette } from "../theme.js";
import { asTable } from "./as_table.js";
import { drawMarkers, fit, hatch, hover, LEFT, triangle } from "./canvas.js";
import { niceStep } from "./scale.js";
import { shareCursor } from "./cursor.js";
import { slotsSince } from "./load_areas.js";

const STRIP = 40; // height of the density strip, its gap included
const BOTTOM = 20;
const SPANS = [2, 5, 10, 20, 30, 60];
const LEGEND = [
  ["queued", "queued"],
  ["prefill", "prefill"],
  ["decode", "decode"],
  ["preempted", "preempted ▶"],
];

export function createTimeline(store, loop) {
  const card = $("#timeline");
  const canvas = $("canvas", card);
  const view = { window: windowFromUrl(), from: 0, to: 1, rows: [], slots: 1, rowHeight: 1, bars: [] };
  for (const button of $$("[data-window]", card)) {
    setAttr(button, "aria-pressed", String(Number(button.dataset.window) === view.window));
    button.addEventListener("click", () => choose(Number(button.dataset.window), card, view, loop));
  }
  hover(canvas, (x, y) => {
    const bar = hit(view, canvas, x, y);
    setStyle(canvas, "cursor", bar ? "pointer" : "default");
    return bar ? barText(bar, view.now) : queueText(view, canvas, x, y);
  });
  shareCursor(
    canvas,
    (x) => (x < LEFT || !view.scale ? null : view.from + (x - LEFT) / view.scale),
    (t) => (!view.scale || t < view.from || t > view.to ? null : LEFT + (t - view.from) * view.scale),
  );
  canvas.addEventListener("click", (event) => {
    const bar = hit(view, canvas, event.offsetX, event.offsetY);
    if (bar) location.assign(requestUrl(bar.id));
  });
  const drawTable = asTable(card, store, COLUMNS, (state) =>
    [...state.bars.values()]
      .filter((bar) => bar.slot >= 0)
      .slice(-50)
      .reverse()
      .map((bar) => ({ ...bar, now: state.gauges.now_ms })),
  );
  return { draw: (state) => draw(card, canvas, view, state), drawTable };
}

function windowFromUrl() {
  const wanted = Number(new URLSearchParams(location.search).get("window"));
  return [10, 30, 60].includes(wanted) ? wanted : 60;
}

function choose(seconds, card, view, loop) {
  view.window = seconds;
  const url = new URL(location.href);
  url.searchParams.set("window", seconds);
  history.replaceState(null, "", url);
  for (const button of $$("[data-window]", card))
    setAttr(button, "aria-pressed", String(Number(button.dataset.window) === seconds));
  loop.again();
}

function draw(card, canvas, view, state) {
  if (state.gauges === null) return;
  layOut(view, state);
  setStyle(canvas.parentElement, "height", `${STRIP + Math.round(view.rowHeight * view.slots) + BOTTOM}px`);
  const [context, width, height] = fit(canvas);
  view.scale = (width - LEFT) / (view.to - view.from);
  const x = (t) => LEFT + (t - view.from) * view.scale;
  axes(context, view, width, height, x);
  density(context, view, width);
  rows(context, view, x, width);
  const marks = state.markers.filter((mark) => mark.t >= view.from && mark.t <= view.to);
  drawMarkers(
    context,
    marks.map((mark) => ({ x: x(mark.t), text: mark.text })),
    0,
    height - BOTTOM,
    LEFT,
  );
  const dropped = state.barsDropped ? ` · ${int(state.barsDropped)} older bars not kept` : "";
  setText(
    $(".note", card),
    `a row a slot, last ${secondsOf((view.to - view.from) / 1000, view.window)} · click a bar for its request${dropped}`,
  );
  drawLegend($(".legend", card), LEGEND);
  setAttr(
    canvas,
    "aria-label",
    `Timeline of ${plural(view.bars.length, "bar")} in ${plural(view.slots, "slot")}: ${int(state.gauges.running)} running, ${int(state.gauges.waiting)} queued, ${int(state.gauges.preempted)} preempted`,
  );
}

/** Window, rows and row height: what is drawn and what is hit are the same lists. */
function layOut(view, state) {
  view.now = state.gauges.now_ms;
  view.to = view.now;
  const bars = [...state.bars.values()];
  const first = bars.reduce((least, bar) => Math.min(least, bar.t0), view.to);
  const span = SPANS.find((seconds) => seconds * 1000 >= view.to - first) || 60;
  view.from = view.to - Math.min(span, view.window) * 1000;
  view.bars = bars.filter((bar) => bar.t1 === null || bar.t1 >= view.from);
  view.slots = view.bars.reduce((most, bar) => Math.max(most, bar.slot + 1), slotsSince(state.steps, view.from, state.gauges.max_num_seqs || 1));
  view.rowHeight = Math.max(1.5, Math.min(20, 340 / view.slots));
  view.rows = Array.from({ length: view.slots }, () => []);
  for (const bar of view.bars) if (bar.slot >= 0) view.rows[bar.slot].push(bar);
  view.outside = view.bars.filter((bar) => bar.slot < 0 || bar.phase === "preempted");
}

function axes(context, view, width, height, x) {
  const colours = palette();
  const bottom = height - BOTTOM;
  const step = niceStep((view.to - view.from) / 1000, width / 110);
  context.textAlign = "center";
  for (let s = Math.max(0, Math.ceil(view.from / 1000 / step)) * step; s * 1000 <= view.to; s += step) {
    const at = Math.round(x(s * 1000));
    context.fillStyle = colours.grid;
    context.fillRect(at, 0, 1, bottom);
    context.fillStyle = colours.mut;
    const text = `${step < 1 ? s.toFixed(1) : int(s)} s`;
    if (at > LEFT + 12 && at < width - 16) context.fillText(text, at, height - 5);
  }
  context.textAlign = "right";
  context.fillText("queue", LEFT - 7, 21);
  const every = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512].find((n) => n * view.rowHeight >= 14) || 1024;
  for (let slot = 0; slot < view.slots; slot += every)
    context.fillText(`${slot}`, LEFT - 7, STRIP + slot * view.rowHeight + Math.max(9, view.rowHeight / 2 + 4));
}

/** How many were queued (grey) and preempted (magenta on top) at each pixel: differences at the bars' ends, then a sum. */
function density(context, view, width) {
  const colours = palette();
  const columns = Math.max(1, Math.floor(width - LEFT));
  const queued = new Float64Array(columns + 1),
    preempted = new Float64Array(columns + 1);
  const column = (t) => Math.max(0, Math.min(columns, Math.round((t - view.from) * view.scale)));
  for (const bar of view.outside) {
    const counts = bar.phase === "preempted" ? preempted : queued;
    counts[column(bar.t0)] += 1;
    counts[column(bar.t1 === null ? view.to : bar.t1)] -= 1;
  }
  let most = 0;
  for (let i = 1; i < columns; i += 1) {
    queued[i] += queued[i - 1];
    preempted[i] += preempted[i - 1];
    most = Math.max(most, queued[i] + preempted[i]);
  }
  view.depth = { queued, preempted, most };
  const room = STRIP - 8,
    unit = room / Math.max(4, most);
  for (let i = 0; i < columns; i += 1) {
    const q = Math.round(queued[i] * unit),
      p = Math.round((queued[i] + preempted[i]) * unit) - q;
    context.fillStyle = colours.queued;
    if (q > 0) context.fillRect(LEFT + i, room - q, 1, q);
    context.fillStyle = colours.preempted;
    if (p > 0) context.fillRect(LEFT + i, room - q - p, 1, p);
  }
  context.fillStyle = colours.line;
  context.fillRect(LEFT, room, columns, 1);
}

function rows(context, view, x, width) {
  const colours = palette();
  const pattern = hatch(context, colours.preempted);
  const h = Math.max(1, Math.round(view.rowHeight) - (view.rowHeight > 5 ? 2 : view.rowHeight > 3 ? 1 : 0));
  const box = (bar, slot) => {
    const left = Math.max(LEFT, Math.round(x(bar.t0)));
    const right = Math.min(width, Math.round(x(bar.t1 === null ? view.to : bar.t1)));
    return [left, STRIP + Math.round(slot * view.rowHeight), Math.max(1, right - left)];
  };
  const marks = [];
  for (const phase of ["preempted", "decode", "prefill"]) {
    context.globalAlpha = phase === "decode" ? 0.72 : 1;
    view.rows.forEach((bars, slot) => {
      for (const bar of bars) {
        if (bar.phase !== phase) continue;
        const [left, y, w] = box(bar, slot);
        context.fillStyle = phase === "preempted" ? pattern : colours[phase];
        context.fillRect(left, y, w, h);
        if (phase === "decode" && h >= 5) edge(context, left, y + h - 1, w, colours["decode-edge"]);
        if (phase === "preempted" && bar.t0 >= view.from) marks.push([left, y + h / 2]);
      }
    });
  }
  context.globalAlpha = 1;
  context.fillStyle = colours.preempted;
  for (const [left, y] of marks) triangle(context, left, y, Math.max(3, Math.min(5, h / 2)));
}

function edge(context, x, y, w, colour) {
  const before = context.fillStyle;
  context.fillStyle = colour;
  context.fillRect(x, y, w, 1);
  context.fillStyle = before;
}

/** The bar at a point: a running bar before a preempted one that it covers. */
function hit(view, canvas, x, y) {
  const slot = Math.floor((y - STRIP) / view.rowHeight);
  if (slot < 0 || slot >= view.slots || x < LEFT || !view.rows[slot]) return null;
  const t = view.from + (x - LEFT) / view.scale,
    slack = 2 / view.scale;
  const found = view.rows[slot].filter((bar) => bar.t0 - slack <= t && (bar.t1 === null || bar.t1 + slack >= t));
  return found.find((bar) => bar.phase === "prefill") || found.find((bar) => bar.phase !== "preempted") || found[0] || null;
}

function barText(bar, now) {
  const end = bar.t1 === null ? now : bar.t1;
  const outcome = bar.t1 === null ? "still going" : bar.reason ? `then finished: ${bar.reason}` : "";
  return [
    `${bar.id}`,
    `tenant ${bar.tenant} · slot ${bar.slot}`,
    `${bar.phase} ${ms(end - bar.t0)}, from ${(bar.t0 / 1000).toFixed(2)} s`,
    outcome,
  ]
    .filter(Boolean)
    .join("\n");
}

function queueText(view, canvas, x, y) {
  if (y > STRIP || x < LEFT || !view.depth) return null;
  const i = Math.min(view.depth.queued.length - 2, Math.floor(x - LEFT));
  return `${plural(view.depth.queued[i], "request")} queued${view.depth.preempted[i] ? `, ${int(view.depth.preempted[i])} preempted` : ""}\nmost in view: ${int(view.depth.most)}`;
}

const COLUMNS = [
  { label: "Request", cell: (bar) => bar.id },
  { label: "Tenant", cell: (bar) => bar.tenant },
  { label: "Slot", num: true, cell: (bar) => int(bar.slot) },
  { label: "Phase", cell: (bar) => bar.phase },
  { label: "From", num: true, cell: (bar) => `${(bar.t0 / 1000).toFixed(3)} s` },
  { label: "Lasted", num: true, cell: (bar) => (bar.t1 === null ? `${ms(bar.now - bar.t0)}, open` : ms(bar.t1 - bar.t0)) },
  { label: "End", cell: (bar) => bar.reason || "" },
];
