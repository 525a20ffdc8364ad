// Step composition: one bar a step, prefill and decode tokens, the unused budget tinted by what bound the step.
// Pixel-aligned fillRect on an own canvas: the last 600 steps cost about half a millisecond.

import { query } from "../api.js";
import { $, drawLegend, setAttr, setText } from "../dom.js";
import { int, plural, sig3 } from "../format.js";
import { RUN_LIVE } from "../shell.js";
import { STEPS_KEPT } from "../store.js";
import { palette } from "../theme.js";
import { SHORT } from "../words.js";
import { asTable } from "./as_table.js";
import { drawMarkers, fit, hover, LEFT, RIGHT } from "./canvas.js";
import { niceStep } from "./scale.js";
import { shareCursor } from "./cursor.js";

const BOTTOM = 20;
const TOP = 6;

export function createStrip(store) {
  const card = $("#strip");
  const canvas = $("canvas", card);
  hover(canvas, (x) => tipText(store.state, x, canvas.clientWidth));
  shareSteps(canvas, store);
  canvas.addEventListener("click", (event) => openAt(store.state, event.offsetX, canvas.clientWidth));
  const drawTable = asTable(card, store, COLUMNS, lastRows);
  return { draw: (state) => draw(card, canvas, state), drawTable };
}

/** The step under the pointer, on the timeline of the run that it is of, as far as that goes on. */
function openAt({ boot, steps, run }, x, width) {
  const i = indexAt(steps, x, width);
  const step = `${boot}.${steps.seq[i]}`;
  if (i >= 0) location.assign(`/timeline${query({ run: run && RUN_LIVE.includes(run.status) ? run.id : "live", step })}`);
}

/** The cursor over a chart whose axis is that of the steps. */
export function shareSteps(canvas, store) {
  shareCursor(
    canvas,
    (x) => store.state.steps.t[indexAt(store.state.steps, x, canvas.clientWidth)] ?? null,
    (t) => {
      const { steps } = store.state;
      const index = steps.t.findIndex((end) => end >= t);
      return index < 0 || t < steps.t[0] - steps.ms[0] ? null : stepX(index + 0.5, steps.seq.length, canvas.clientWidth);
    },
  );
}

/** The index of the step at `x`, -1 beside them. */
function indexAt(steps, x, width) {
  const share = (x - LEFT) / (width - LEFT - RIGHT);
  const index = Math.floor(share * STEPS_KEPT) - (STEPS_KEPT - steps.seq.length);
  return index < 0 || share > 1 || index >= steps.seq.length ? -1 : index;
}

/** x of step `index` of `count`, the newest at the right edge. */
function stepX(index, count, width) {
  const first = STEPS_KEPT - count;
  return Math.round(LEFT + ((first + index) * (width - LEFT - RIGHT)) / STEPS_KEPT);
}

function draw(card, canvas, state) {
  const [context, width, height] = fit(canvas);
  const steps = state.steps;
  const bottom = height - BOTTOM;
  const [top, budget] = ceiling(steps);
  const y = (tokens) => Math.round(bottom - ((bottom - TOP) * Math.min(tokens, top)) / top);
  grid(context, width, top, y);
  bars(context, steps, width, y);
  numbers(context, steps, width, height);
  drawMarks(context, state, width, TOP, bottom);
  const count = steps.seq.length;
  setText(
    $(".note", card),
    `tokens a step, last ${int(count)} steps · budget ${int(budget)}${budget > top ? " (beyond the scale)" : ""}${gapText(state)}`,
  );
  drawLegend($(".legend", card), legend(steps));
  setAttr(canvas, "aria-label", label(steps));
}

/** Said for as long as the place is in view. */
function gapText({ gap, steps }) {
  if (gap === null || steps.step[0] > gap.newest) return "";
  const source = gap.filled ? `${int(gap.filled)} of them read from the records` : "the records have them";
  return ` · ${plural(gap.missed, "step")} went by while this page was away: ${source}`;
}

/** The top of the scale: the budget, unless the steps are so small beside it that nothing would be seen. */
function ceiling(steps) {
  let used = 1,
    budget = 1;
  for (let i = 0; i < steps.seq.length; i += 1) {
    used = Math.max(used, steps.prefill[i] + steps.decode[i]);
    budget = Math.max(budget, steps.budget[i]);
  }
  if (used * 3 > budget) return [budget, budget];
  const step = niceStep(used * 1.3, 4);
  return [Math.ceil((used * 1.3) / step) * step, budget];
}

function grid(context, width, top, y) {
  const colours = palette();
  context.textAlign = "right";
  for (let share = 0; share <= 4; share += 1) {
    const tokens = (top * share) / 4;
    context.fillStyle = colours.grid;
    context.fillRect(LEFT, y(tokens), width - LEFT - RIGHT, 1);
    context.fillStyle = colours.mut;
    context.fillText(int(tokens), LEFT - 7, Math.max(10, y(tokens) + 4));
  }
}

/** [step, x, width] of what is drawn: of steps that share a column of pixels the largest, so that no tint is laid twice. */
function* columns(steps, width) {
  const count = steps.seq.length;
  let largest = 0;
  for (let i = 0; i < count; i += 1) {
    if (steps.prefill[i] + steps.decode[i] > steps.prefill[largest] + steps.decode[largest]) largest = i;
    const [x, next] = [stepX(i, count, width), stepX(i + 1, count, width)];
    if (next === x && i + 1 < count) continue;
    yield [largest, x, Math.max(1, next - x)];
    largest = i + 1;
  }
}

function bars(context, steps, width, y) {
  const colours = palette();
  const zero = y(0);
  for (const [i, x, w] of columns(steps, width)) {
    const prefill = steps.prefill[i],
      total = prefill + steps.decode[i];
    const yp = y(prefill),
      yt = y(total),
      yb = y(steps.budget[i]);
    const bound = steps.binding[i];
    context.globalAlpha = bound === "step" ? 1 : 0.22;
    context.fillStyle = bound === "step" ? colours.unused : colours[`r-${bound}`];
    context.fillRect(x, yb, w, yt - yb);
    context.globalAlpha = 0.85;
    context.fillStyle = colours.decode;
    context.fillRect(x, yt, w, yp - yt);
    context.globalAlpha = 1;
    if (total > prefill) {
      context.fillStyle = colours["decode-edge"];
      context.fillRect(x, yt, w, 1);
    }
    context.fillStyle = colours.prefill;
    context.fillRect(x, yp, w, zero - yp);
  }
}

function numbers(context, steps, width, height) {
  const count = steps.seq.length;
  if (!count) return;
  const every = width < 500 ? 200 : 100;
  context.fillStyle = palette().mut;
  context.textAlign = "center";
  for (let i = 0; i < count; i += 1) {
    const x = stepX(i, count, width);
    if (steps.step[i] % every === 0 && x < width - RIGHT - 30) context.fillText(int(steps.step[i]), x, height - 5);
  }
  context.textAlign = "right";
  context.fillText("step no.", width - 2, height - 5);
}

/** Before which step a marker at `t` ms falls, their count for one right after the newest; null when it is outside. */
function markAt(steps, t) {
  const count = steps.seq.length;
  const index = steps.t.findIndex((end) => end >= t);
  if (index < 0) return count && t - steps.t[count - 1] < 2000 ? count : null;
  return index === 0 && t < steps.t[0] - steps.ms[0] ? null : index;
}

/** The markers over a chart whose axis is that of the steps. */
export function drawMarks(context, { steps, markers }, width, top, bottom) {
  const marks = markers.map(({ t, text }) => ({ at: markAt(steps, t), text })).filter(({ at }) => at !== null);
  const placed = marks.map(({ at, text }) => ({ x: stepX(at, steps.seq.length, width), text }));
  drawMarkers(context, placed, top, bottom, LEFT);
}

function legend(steps) {
  const bound = [...new Set(steps.binding)].sort();
  const tints = bound.map((reason) =>
    reason === "step" ? ["unused", "unused: nobody left to take in"] : [`r-${reason}`, `unused: ${SHORT[reason]}`],
  );
  return [["prefill", "prefill"], ["decode", "decode"], ...tints];
}

function label(steps) {
  const i = steps.seq.length - 1;
  if (i < 0) return "Tokens of each step: no step yet";
  return `Tokens of each step. Step ${steps.step[i]}: ${steps.prefill[i]} prefill, ${steps.decode[i]} decode of a budget of ${steps.budget[i]}, bound by ${SHORT[steps.binding[i]]}`;
}

function tipText(state, x, width) {
  const { steps } = state;
  const i = indexAt(steps, x, width);
  if (i < 0) return null;
  const unused = steps.budget[i] - steps.prefill[i] - steps.decode[i];
  const bound = steps.binding[i] === "step" ? "nobody left to take in" : `bound by ${SHORT[steps.binding[i]]}`;
  return `step ${int(steps.step[i])} · ${sig3(steps.ms[i])} ms\nprefill ${int(steps.prefill[i])} · decode ${int(steps.decode[i])} · unused ${int(unused)}\n${bound} · ${int(steps.waiting[i])} waiting · ${int(steps.running[i])} running`;
}

export const MARKED = { label: "Marked", class: "wrap", cell: (row) => row.marked };
const COLUMNS = [
  { label: "Step", num: true, cell: (row) => int(row.step) },
  { label: "ms", num: true, cell: (row) => sig3(row.ms) },
  { label: "Prefill", num: true, cell: (row) => int(row.prefill) },
  { label: "Decode", num: true, cell: (row) => int(row.decode) },
  { label: "Budget", num: true, cell: (row) => int(row.budget) },
  { label: "Bound by", cell: (row) => SHORT[row.binding] },
  { label: "Waiting", num: true, cell: (row) => int(row.waiting) },
  { label: "Running", num: true, cell: (row) => int(row.running) },
  { label: "KV blocks", num: true, cell: (row) => int(row.kv_used) },
  { label: "Preempted", num: true, cell: (row) => int(row.preempted) },
  MARKED,
];

/** The last 50 steps as objects, newest first; `marked`: what happened right before the step, or after the newest one. */
export function lastRows({ steps, markers }) {
  const count = steps.seq.length;
  const from = Math.max(0, count - 50);
  const marked = {};
  for (const { t, text } of markers) {
    const at = markAt(steps, t);
    const [i, said] = at === count ? [count - 1, `then ${text}`] : [at, text];
    marked[i] = marked[i] ? `${marked[i]} · ${said}` : said;
  }
  return steps.step
    .slice(from)
    .map((step, offset) => {
      const i = from + offset;
      const names = ["ms", "prefill", "decode", "budget", "binding", "waiting", "running", "kv_used", "preempted"];
      return { step, marked: marked[i] || "", ...Object.fromEntries(names.map((name) => [name, steps[name][i]])) };
    })
    .reverse();
}
