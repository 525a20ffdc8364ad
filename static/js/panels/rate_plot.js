// The plot that a load shape and what is offered share: arrivals a second over seconds, with grid and ticks. Knows no data.

import { int } from "../format.js";
import { palette } from "../theme.js";
import { fit, LEFT } from "./canvas.js";
import { niceStep } from "./scale.js";

const [TOP, RIGHT_EDGE, FOOT] = [12, 22, 20];
const EDGE = 1.15; // of the highest rate, so that there is room to draw a point up

/** The scales of a canvas for so many seconds and so high a rate: pixels of t and rate, and back. */
export function scales(canvas, seconds, rate) {
  const [width, height] = [canvas.clientWidth - LEFT - RIGHT_EDGE, canvas.clientHeight - TOP - FOOT];
  const most = rate > 0 ? Math.ceil((rate * EDGE) / niceStep(rate, 4)) * niceStep(rate, 4) : 1;
  return {
    seconds,
    most,
    x: (t) => LEFT + (t / seconds) * width,
    y: (value) => TOP + (1 - value / most) * height,
    t: (x) => ((x - LEFT) / width) * seconds,
    rate: (y) => (1 - (y - TOP) / height) * most,
  };
}

function ticks(max, count) {
  const step = niceStep(max, count);
  return Array.from({ length: Math.floor(max / step + 1e-9) + 1 }, (_, i) => Number((i * step).toPrecision(12)));
}

/** Clears the canvas and draws the axes; its context. */
export function begin(canvas, scale) {
  const [context, width] = fit(canvas);
  const colours = palette();
  context.textAlign = "right";
  for (const value of ticks(scale.most, 4)) {
    context.fillStyle = colours.grid;
    context.fillRect(LEFT, Math.round(scale.y(value)), width - LEFT - RIGHT_EDGE, 1);
    context.fillStyle = colours.mut;
    context.fillText(value >= 1000 ? int(value) : String(value), LEFT - 7, scale.y(value) + 4);
  }
  context.textAlign = "center";
  for (const t of ticks(scale.seconds, (width - LEFT) / 90)) context.fillText(`${t % 1 ? t : int(t)} s`, scale.x(t), scale.y(0) + 15);
  return context;
}

/** A line through [[t, rate], …]. */
export function line(context, scale, points, colour, dash = []) {
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.lineJoin = "round";
  context.setLineDash(dash);
  context.beginPath();
  for (const [t, rate] of points) context.lineTo(scale.x(t), scale.y(rate));
  context.stroke();
  context.setLineDash([]);
}
