// Keys and pointer of the page, as deeds by name. Knows neither data nor drawing.

import { onKey } from "../keys.js";
import { AXIS, brush, OVERVIEW, overviewT } from "./bands.js";

const NEAR = 7; // pixels round a handle of the brush
const KEYS = [
  ["w", "zoom in at the pointer", (deeds) => deeds.zoom(0.6)],
  ["s", "zoom out", (deeds) => deeds.zoom(1 / 0.6)],
  ["a", "pan left", (deeds) => deeds.pan(-0.2)],
  ["d", "pan right", (deeds) => deeds.pan(0.2)],
  [".", "next phase of the selected request", (deeds) => deeds.neighbour("after")],
  [",", "phase before", (deeds) => deeds.neighbour("before")],
  ["f", "fit the selection, then everything", (deeds) => deeds.fit()],
  ["r", "area of the selected bar", (deeds) => deeds.areaOfChosen()],
  ["m", "marker at the pointer, or take it away", (deeds) => deeds.mark()],
  ["p", "pin the row of the selected bar", (deeds) => deeds.pin()],
  ["o", "what the step at the pointer did", (deeds) => deeds.step()],
  ["Escape", "clear selection and area", (deeds) => deeds.clear()],
];

/** Keys do nothing until there is something to act on. */
export function keys(deeds, ready) {
  for (const [key, words, deed] of KEYS) onKey(key, words, () => ready() && deed(deeds));
}

/** Drag = area, Shift-drag = pan, click = choose, double-click = fit the bar, Ctrl-wheel = zoom, sideways wheel = pan. */
export function pointer(canvas, view, deeds) {
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    drag = begin(canvas, view, event);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    deeds.point(event.offsetX);
    if (!drag) return;
    drag.moved = drag.moved || Math.abs(event.offsetX - drag.x) > 3;
    if (drag.moved) move(drag, view, deeds, event.offsetX);
  });
  canvas.addEventListener("pointerup", (event) => {
    const done = drag;
    drag = null;
    if (!done) return;
    if (done.kind === "area" && !done.moved) deeds.choose(event.offsetX, event.offsetY, canvas);
    else deeds.settle();
  });
  canvas.addEventListener("pointercancel", () => (drag = null));
  canvas.addEventListener("dblclick", (event) => deeds.fitBar(event.offsetX, event.offsetY, canvas));
  canvas.addEventListener(
    "wheel",
    (event) => {
      const zoom = event.ctrlKey || event.metaKey;
      if (!zoom && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return; // the page scrolls
      event.preventDefault();
      if (zoom) deeds.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 200))));
      else deeds.pan(event.deltaX / view.plot);
    },
    { passive: false },
  );
}

function begin(canvas, view, event) {
  const x = event.offsetX;
  const shared = { x, moved: false, from: view.from, to: view.to, t: view.t(x) };
  if (canvas.dataset.overview !== undefined && event.offsetY <= OVERVIEW.height)
    return { ...shared, kind: handle(view, x), at: overviewT(view, x) };
  if (canvas.dataset.overview !== undefined && event.offsetY >= AXIS.top) return { ...shared, kind: "pan" };
  return { ...shared, kind: event.shiftKey ? "pan" : "area" };
}

/** What of the brush is under the pointer. */
function handle(view, x) {
  const [a, b] = brush(view);
  if (view.isWhole()) return "draw"; // nothing to move: every drag draws a new window
  if (Math.abs(x - a) <= NEAR && Math.abs(x - a) <= Math.abs(x - b)) return "left";
  if (Math.abs(x - b) <= NEAR) return "right";
  return x > a && x < b ? "move" : "draw";
}

function move(drag, view, deeds, x) {
  if (drag.kind === "area") return deeds.area(...[drag.t, view.t(x)].sort((a, b) => a - b));
  const by = overviewT(view, x) - drag.at;
  const span = drag.to - drag.from;
  const moved = {
    pan: () => [drag.from - ((x - drag.x) * span) / view.plot, drag.to - ((x - drag.x) * span) / view.plot],
    move: () => [drag.from + by, drag.to + by],
    left: () => [Math.min(drag.from + by, drag.to - 0.002), drag.to],
    right: () => [drag.from, Math.max(drag.to + by, drag.from + 0.002)],
    draw: () => [drag.at, drag.at + by].sort((a, b) => a - b),
  };
  return deeds.show(...moved[drag.kind]());
}
