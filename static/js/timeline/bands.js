// What lies over the bars on the same axis: the whole run with its brush, the steps with KV memory, the queue by reason.
// A pixel that holds several steps shows the one with most waiting, the largest prefill and the mean of the decodes.

import { niceStep } from "../panels/scale.js";
import { int } from "../format.js";
import { palette } from "../theme.js";
import { REASONS } from "../words.js";
import { eachColumn, firstStep, most } from "./steps.js";

export const OVERVIEW = { top: 0, height: 46 };
export const STEPS = { top: 56, height: 84 };
export const QUEUE = { top: 150, height: 48 };
export const AXIS = { top: 200, height: 18 };

/** Waiting over the whole run, and which part of it is in view. */
export function drawOverview(context, steps, view) {
  const colours = palette();
  const [left, right] = [view.left, view.width - view.right];
  const x = overviewX(view);
  const top = largest(steps.waiting, 4);
  const floor = OVERVIEW.height;
  eachColumn(
    steps,
    view.first,
    view.last,
    x,
    [left, right],
    (at, w, i, j) => {
      const k = most(steps.waiting, i, j);
      const total = Math.round(((floor - 8) * steps.waiting[k]) / top);
      context.fillStyle = colours.unused;
      context.fillRect(at, floor - 5, w, 5); // a step ran here
      context.fillStyle = colours["r-slots"];
      context.fillRect(at, floor - 5 - total, w, total);
    },
    true,
  );
  const [a, b] = brush(view);
  context.fillStyle = `${colours.card}b8`;
  context.fillRect(left, 0, a - left, floor);
  context.fillRect(b, 0, right - b, floor);
  context.strokeStyle = colours.acc;
  context.lineWidth = 1;
  context.strokeRect(a + 0.5, 0.5, Math.max(2, b - a - 1), floor - 1);
  context.fillStyle = colours.acc;
  for (const at of [a - 2, b - 3]) context.fillRect(at, floor / 2 - 9, 5, 18);
  caption(context, "whole run", view, 20);
  caption(context, `waiting ≤ ${int(top)}`, view, 34);
}

const largest = (column, least) => column.reduce((top, value) => Math.max(top, value), least);

/** x of a second on the overview's own axis. */
const overviewX = (view) => (t) => view.left + ((t - view.first) * view.plot) / (view.last - view.first);
export const overviewT = (view, x) => view.first + ((x - view.left) * (view.last - view.first)) / view.plot;

/** Pixels of the brush's edges. */
export function brush(view) {
  const x = overviewX(view);
  const inside = (value) => Math.round(Math.max(view.left, Math.min(view.width - view.right, value)));
  return [inside(x(view.from)), inside(x(view.to))];
}

function caption(context, text, view, y) {
  context.fillStyle = palette().mut;
  context.textAlign = "right";
  if (context.measureText(text).width <= view.left - 8) context.fillText(text, view.left - 7, y);
  else context.fillText(text.split(" ")[0], view.left - 7, y);
}

/** Tokens a step over the budget's height, KV memory as a line. Returns whether steps were merged. */
export function drawSteps(context, steps, view) {
  const colours = palette();
  const { top, height } = STEPS;
  const bottom = top + height;
  const [left, right] = [view.left, view.width - view.right];
  const [from, until] = [firstStep(steps, view.from), firstStep(steps, view.to) + 1];
  let ceiling = 1;
  for (let i = from; i < Math.min(until, steps.t.length); i += 1)
    ceiling = Math.max(ceiling, steps.prefill[i] + steps.decode[i]);
  let merged = false;
  const line = [];
  eachColumn(
    steps,
    view.from,
    view.to,
    (t) => view.x(t),
    [left, right],
    (x, w, i, j) => {
      merged = merged || j - i > 1;
      let decode = 0;
      for (let k = i; k < j; k += 1) decode += steps.decode[k];
      const prefill = Math.round((height * steps.prefill[most(steps.prefill, i, j)]) / ceiling);
      const rest = Math.min(height - prefill, Math.round((height * decode) / (j - i) / ceiling));
      context.fillStyle = colours.prefill;
      context.fillRect(x, bottom - prefill, w, prefill);
      context.fillStyle = colours.decode;
      context.fillRect(x, bottom - prefill - rest, w, rest);
      const k = j - 1;
      if (steps.kv_used[k] !== null && steps.blocks[k])
        line.push([x, x + w, bottom - (height * steps.kv_used[k]) / steps.blocks[k]]);
    },
  );
  kvLine(context, line, colours);
  context.fillStyle = colours.line;
  context.fillRect(left, bottom, right - left, 1);
  caption(context, int(ceiling), view, top + 9);
  caption(context, "tokens", view, top + height / 2);
  caption(context, "a step", view, top + height / 2 + 13);
  caption(context, "0", view, bottom);
  return merged;
}

function kvLine(context, line, colours) {
  for (const [colour, width] of [
    [colours.card, 4],
    [colours.kv, 2],
  ]) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.beginPath();
    line.forEach(([x0, x1, y], index) => {
      const gap = index === 0 || x0 - line[index - 1][1] > 3;
      if (gap) context.moveTo(x0, y);
      else context.lineTo(x0, y);
      context.lineTo(x1, y);
    });
    context.stroke();
  }
}

/** How many waited, and for what. */
export function drawQueue(context, steps, view) {
  const colours = palette();
  const { top, height } = QUEUE;
  const bottom = top + height;
  const [left, right] = [view.left, view.width - view.right];
  const present = REASONS.filter((reason) => steps.by_reason[reason]);
  let ceiling = 4;
  const end = Math.min(steps.t.length, firstStep(steps, view.to) + 1);
  for (let i = firstStep(steps, view.from); i < end; i += 1) ceiling = Math.max(ceiling, steps.waiting[i]);
  eachColumn(
    steps,
    view.from,
    view.to,
    (t) => view.x(t),
    [left, right],
    (x, w, i, j) => {
      const k = most(steps.waiting, i, j);
      let sum = 0,
        below = bottom;
      for (const reason of present) {
        sum += steps.by_reason[reason][k];
        const y = bottom - Math.round((height * sum) / ceiling);
        context.fillStyle = colours[`r-${reason}`];
        context.fillRect(x, y, w, below - y);
        below = y;
      }
    },
    true,
  );
  context.fillStyle = colours.line;
  context.fillRect(left, bottom, right - left, 1);
  caption(context, int(ceiling), view, top + 9);
  caption(context, "waiting", view, top + height / 2 + 6);
}

/** Seconds under the bands, and their lines through [top, bottom]. */
export function drawAxis(context, view, top, bottom, labelled) {
  const colours = palette();
  const step = niceStep(view.span, view.plot / 100);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  context.textAlign = "center";
  for (let n = Math.ceil(view.from / step); n * step <= view.to; n += 1) {
    const x = Math.round(view.x(n * step));
    context.fillStyle = colours.grid;
    context.fillRect(x, top, 1, bottom - top);
    if (!labelled || x < view.left + 14 || x > view.width - view.right - 18) continue;
    context.fillStyle = colours.mut;
    context.fillText(`${(n * step).toFixed(digits)} s`, x, bottom + 13);
  }
}
