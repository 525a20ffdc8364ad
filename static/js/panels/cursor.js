// One cursor for the charts of a page: where the pointer is on one of them, in ms of the engine's clock, is shown on all.

import { el, setHidden, setStyle } from "../dom.js";

const charts = [];
let pointer = null; // { chart, x }

/** Adds a chart: `toTime(x)` and `toX(t)` go between its pixels and the clock, null where it shows nothing. */
export function shareCursor(canvas, toTime, toX) {
  const hair = el("i", { class: "hair", hidden: true });
  canvas.parentElement.append(hair);
  const chart = { hair, toTime, toX };
  charts.push(chart);
  canvas.addEventListener("pointermove", (event) => point({ chart, x: event.offsetX }));
  canvas.addEventListener("pointerleave", () => point(null));
}

function point(at) {
  pointer = at;
  followCursor();
}

/** What is under a pointer at rest moves on: to be called after the charts were drawn. */
export function followCursor() {
  const t = pointer === null ? null : pointer.chart.toTime(pointer.x);
  for (const { hair, toX } of charts) {
    const x = t === null ? null : toX(t);
    setHidden(hair, x === null);
    if (x !== null) setStyle(hair, "transform", `translateX(${Math.round(x)}px)`);
  }
}
