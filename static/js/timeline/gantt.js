// Draws bars in rows. A phase is told by shape as well as by colour: queued is a thin line, prefill a full block, decode a
// lower block with an edge, preempted a hatch; ▶ where a slot was taken away. Pixel-aligned fillRect, batched by phase.
// What is narrower than a pixel and falls on one that is drawn already is not drawn again.

import { FONT, hatch, triangle } from "../panels/canvas.js";
import { palette } from "../theme.js";
import { PHASES } from "./bars.js";
import { inkOn, mix } from "./colour.js";

const LABEL_MIN = 40;
const ORDER = [0, 2, 1, 3]; // a prefill of one pixel is not lost between two decodes
const rects = PHASES.map(() => []);

/** `rows`: lanes from the top. Returns how many rectangles were drawn. */
export function drawBars(context, bars, view, rows, rowHeight, now) {
  const h = Math.max(1, Math.round(rowHeight) - (rowHeight > 5 ? 2 : rowHeight > 3 ? 1 : 0));
  const extras = { soft: [], evictions: [], labels: [] };
  for (const list of rects) list.length = 0;
  rows.forEach((lane, row) => collect(bars, view, bars.lanes[lane], Math.round(row * rowHeight), h, now, extras));
  const shades = colours(context);
  let drawn = 0;
  for (const phase of ORDER) {
    const list = rects[phase];
    const [top, height] = shape(phase, h);
    context.fillStyle = shades.fill[phase];
    for (let i = 0; i < list.length; i += 3) context.fillRect(list[i], list[i + 1] + top, list[i + 2], height);
    drawn += list.length / 3;
  }
  if (h >= 6) edges(context, shades, h);
  for (const [x, y] of extras.soft) {
    context.fillStyle = shades.veil;
    context.fillRect(x, y, 5, h);
  }
  labels(context, shades, bars, extras.labels, h);
  context.fillStyle = shades.evicted;
  for (const [x, y] of extras.evictions) triangle(context, x, y + h / 2, Math.max(3, Math.min(5, h / 2)));
  return drawn;
}

function collect(bars, view, list, y, h, now, extras) {
  if (!list) return;
  const { left, from, to } = view;
  const right = view.width - view.right;
  const scale = view.plot / view.span;
  const seen = [-1, -1, -1, -1];
  for (let i = bars.firstEnding(list, from); i < list.length; i += 1) {
    const index = list[i];
    const t0 = bars.t0[index];
    if (t0 > to) return;
    const phase = bars.phase[index];
    const x0 = t0 <= from ? left : Math.round(left + (t0 - from) * scale);
    const x1 = Math.min(right, Math.round(left + (bars.end(index, now) - from) * scale));
    const w = Math.max(1, x1 - x0);
    if (h >= 5 && bars.evicted(index) && x1 < right) extras.evictions.push([x1, y]);
    if (w === 1 && seen[phase] === x0) continue;
    seen[phase] = x0;
    rects[phase].push(x0, y, w);
    if (bars.isOpen(index) && w > 5) extras.soft.push([x0 + w - 5, y]);
    if (h >= 12 && w >= LABEL_MIN && (phase === 1 || phase === 2)) extras.labels.push([index, x0, y, w]);
  }
}

/** [offset, height] of a phase in a row of `h` pixels. */
export function shape(phase, h) {
  if (phase === 0 && h >= 3) return [Math.floor(h * 0.35), Math.max(1, Math.round(h * 0.3))];
  if (phase === 2 && h >= 6) return [Math.round(h * 0.16), h - 2 * Math.round(h * 0.16)];
  return [0, h];
}

let cached = { card: null };
function colours(context) {
  const names = palette();
  if (cached.names === names) return cached; // the palette is a new object after a change of theme
  const decode = mix(names.decode, names.card, 0.72);
  cached = {
    names,
    fill: [names.queued, names.prefill, decode, hatch(context, names.preempted)],
    edge: names["decode-edge"],
    evicted: names.preempted,
    veil: `${names.card}99`,
    ink: [null, inkOn(names.prefill), inkOn(decode)],
  };
  return cached;
}

function edges(context, shades, h) {
  const [top, height] = shape(2, h);
  context.fillStyle = shades.edge;
  const list = rects[2];
  for (let i = 0; i < list.length; i += 3) context.fillRect(list[i], list[i + 1] + top + height - 1, list[i + 2], 1);
}

function labels(context, shades, bars, found, h) {
  context.font = FONT;
  context.textAlign = "left";
  for (const [index, x, y, w] of found) {
    const text = label(bars.id[index]);
    if (text.length * 7.2 > w - 6) continue;
    context.fillStyle = shades.ink[bars.phase[index]];
    context.fillText(text, x + 4, y + h / 2 + 4);
  }
}

/** What tells a request from the others of its run. */
export function label(id) {
  const own = id.replace(/^run_[0-9a-z]{26}-/, "#");
  return own.length > 9 ? `…${own.slice(-7)}` : own;
}

/** A frame round the bars of the chosen request, the chosen one thicker. */
export function drawChosen(context, bars, view, rows, rowHeight, chosen, now) {
  if (chosen < 0) return;
  context.strokeStyle = palette().fg;
  const id = bars.id[chosen];
  rows.forEach((lane, row) => {
    for (const index of bars.lanes[lane] || []) {
      if (bars.id[index] !== id || bars.t0[index] > view.to || bars.end(index, now) < view.from) continue;
      const x0 = Math.max(view.left, view.x(bars.t0[index])),
        x1 = Math.min(view.width - view.right, view.x(bars.end(index, now)));
      context.lineWidth = index === chosen ? 2 : 1;
      context.strokeRect(
        Math.round(x0) - 0.5,
        Math.round(row * rowHeight) - 0.5,
        Math.max(3, Math.round(x1 - x0) + 1),
        Math.max(3, rowHeight),
      );
    }
  });
}
