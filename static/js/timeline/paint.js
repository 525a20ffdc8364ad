// One frame of the two canvases from the page's state: bands, bars, markers, area, cursor. Knows no event and no network.

import { setAttr, setStyle } from "../dom.js";
import { plural } from "../format.js";
import { drawMarkers, fit } from "../panels/canvas.js";
import { palette } from "../theme.js";
import { AXIS, drawAxis, drawOverview, drawQueue, drawSteps, QUEUE, STEPS } from "./bands.js";
import { drawBars, drawChosen } from "./gantt.js";

const ROOM = 420; // what the rows share, in pixels, as long as each has three
const TALLEST = 4000;
const LEAST = 12; // rows that are shown in any case
const HEIGHTS = [22, 18, 15, 12, 10, 8, 6, 5, 4, 3];
const GAP = 5; // between pinned rows and the others

/** Lanes from the top: the pinned ones first. */
export function order(page) {
  const { bars, groups } = page.records;
  const count = Math.max(
    bars.lanes.length,
    groups.reduce((sum, group) => sum + group.lanes, 0),
  );
  const pins = page.state.pins.filter((lane) => lane < count);
  const rest = Array.from({ length: count }, (_, lane) => lane).filter((lane) => !pins.includes(lane));
  page.pinned = pins.length;
  page.order = [...pins, ...rest];
  page.rows = page.order;
  page.rowHeight = Math.min(TALLEST / Math.max(1, count), Math.max(3, Math.min(22, ROOM / Math.max(1, count))));
}

/** Rows of requests are packed from the top: those below the last that is in view are left out, and the others get their room.
    Heights go in steps, so that a pan seldom changes them. */
function trim(page) {
  if (page.state.rows !== "request") return;
  const { view, records, now } = page;
  const { bars } = records;
  const seen = (lane) => {
    const list = bars.lanes[lane] || [];
    const first = list[bars.firstEnding(list, view.from)];
    return first !== undefined && bars.t0[first] <= view.to && bars.end(first, now) >= view.from;
  };
  let shown = page.order.length;
  while (shown > LEAST && !seen(page.order[shown - 1])) shown -= 1;
  page.rows = page.order.slice(0, shown);
  page.rowHeight = HEIGHTS.find((height) => height * shown <= ROOM) || Math.min(HEIGHTS.at(-1), TALLEST / shown);
}

/** Draws everything; returns whether several steps share a pixel. */
export function paint(page) {
  const { view, steps } = page;
  view.width = page.bandsCanvas.clientWidth;
  view.left = view.width < 560 ? 50 : 64;
  trim(page);
  const [context] = fit(page.bandsCanvas);
  drawAxis(context, view, STEPS.top, AXIS.top, true);
  drawOverview(context, steps, view);
  const merged = drawSteps(context, steps, view);
  drawQueue(context, steps, view);
  overlays(context, page, STEPS.top, QUEUE.top + QUEUE.height, true);
  paintBars(page);
  return merged;
}

export function paintBars(page) {
  const { view, records, now } = page;
  const height = Math.max(40, Math.ceil(page.rows.length * page.rowHeight) + GAP);
  setStyle(page.barsCanvas.parentElement, "height", `${height}px`);
  const [context] = fit(page.barsCanvas);
  drawAxis(context, view, 0, height, false);
  bounds(context, page);
  page.drawn = drawBars(context, records.bars, view, page.rows, page.rowHeight, now);
  drawChosen(context, records.bars, view, page.rows, page.rowHeight, page.chosen, now);
  overlays(context, page, 0, height, false);
  names(context, page);
  setAttr(
    page.barsCanvas,
    "aria-label",
    `${plural(page.records.bars.count, "bar")} in ${plural(page.rows.length, "row")} by ${page.state.rows}, ${view.from.toFixed(3)} to ${view.to.toFixed(3)} s. Phases: queued thin, prefill full, decode lower, preempted hatched`,
  );
}

/** Lines between the groups of rows, and under the pinned ones. */
function bounds(context, page) {
  const { view, records, rowHeight, pinned } = page;
  context.fillStyle = palette().line;
  const line = (row) => context.fillRect(0, Math.round(row * rowHeight) - 1, view.width - view.right, 1);
  if (pinned) line(pinned);
  let first = 0;
  for (const group of records.groups.slice(0, -1)) {
    first += group.lanes;
    if (!pinned) line(first);
  }
}

function names(context, page) {
  const { view, rowHeight, rows } = page;
  const colours = palette();
  context.fillStyle = colours.card;
  context.fillRect(0, 0, view.left - 2, page.barsCanvas.clientHeight);
  bounds(context, page);
  context.textAlign = "right";
  context.fillStyle = colours.mut;
  const every = [1, 2, 4, 8, 16, 32, 64, 128, 256].find((n) => n * rowHeight >= 14) || 512;
  let free = -Infinity;
  rows.forEach((lane, row) => {
    const text = name(page, lane, row, every);
    const y = row * rowHeight + Math.max(9, rowHeight / 2 + 4);
    if (text === null || y < free) return;
    context.fillText(short(context, text, view.left - 10), view.left - 7, y);
    free = y + 12;
  });
}

/** A row's name; null where the row above says it. */
function name(page, lane, row, every) {
  const pin = row < page.pinned ? "▸ " : "";
  const { groups } = page.records;
  if (page.state.rows === "slot")
    return pin || (row - page.pinned) % every === 0 ? `${pin}${page.view.left < 60 ? "" : "slot "}${lane}` : null;
  if (page.state.rows === "request") return pin ? `${pin}${lane}` : null; // a row is nobody's: where there was room
  let first = 0;
  for (const group of groups) {
    if (lane < first + group.lanes) return pin || lane === first ? `${pin}${group.label}` : null;
    first += group.lanes;
  }
  return null;
}

function short(context, text, room) {
  let kept = text;
  while (kept.length > 2 && context.measureText(kept).width > room) kept = `${kept.replace(/…$/, "").slice(0, -1)}…`;
  return kept;
}

function overlays(context, page, top, bottom, texts) {
  const { view } = page;
  const colours = palette();
  const inside = (t) => Math.max(view.left, Math.min(view.width - view.right, Math.round(view.x(t))));
  if (page.state.area) {
    const [a, b] = page.state.area.map(inside);
    context.globalAlpha = 0.14;
    context.fillStyle = colours.acc;
    context.fillRect(a, top, b - a, bottom - top);
    context.globalAlpha = 1;
    for (const x of [a, b]) context.fillRect(x, top, 1, bottom - top);
  }
  const own = [...page.state.marks].sort((a, b) => a - b);
  const all = [...own.map((t, i) => ({ t, text: `${i + 1}: ${t.toFixed(3)} s` })), ...page.changes];
  const marks = all.filter(({ t }) => t >= view.from && t <= view.to);
  if (texts) return drawMarkers(context, marks.map(({ t, text }) => ({ x: view.x(t), text })), top, bottom, view.left);
  context.fillStyle = colours.mut;
  for (const { t } of marks) for (let y = top; y < bottom; y += 6) context.fillRect(Math.round(view.x(t)), y, 1, 3);
}
