// What the hand-written canvases share: crisp size, ticks, markers, tooltips, the hatch of preemption. Knows no data.

import { setHidden, setStyle, setText } from "../dom.js";
import { palette } from "../theme.js";
import { markerPlace } from "./scale.js";

export const LEFT = 46; // both charts of steps have their plot between these edges, so that they align
export const RIGHT = 44;
export const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';

/** The context of a canvas at the device's resolution, cleared: [context, width, height] in CSS pixels. */
export function fit(canvas) {
  const ratio = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const context = canvas.getContext("2d", { alpha: false });
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = palette().card;
  context.fillRect(0, 0, width, height);
  context.font = FONT;
  context.textBaseline = "alphabetic";
  return [context, width, height];
}

const hatches = new Map();

/** A diagonal hatch in `colour`; made once. */
export function hatch(context, colour) {
  if (!hatches.has(colour)) hatches.set(colour, newHatch(context, colour));
  return hatches.get(colour);
}

function newHatch(context, colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const g = tile.getContext("2d");
  g.fillStyle = colour;
  g.fillRect(0, 0, 6, 6);
  g.strokeStyle = "rgba(0, 0, 0, .5)";
  g.lineWidth = 1.3;
  g.beginPath();
  for (const x of [-6, 0, 6]) {
    g.moveTo(x - 1, 7);
    g.lineTo(x + 7, -1);
  }
  g.stroke();
  return context.createPattern(tile, "repeat");
}

/** ▶ around a point: here a request was evicted. */
export function triangle(context, x, y, size) {
  context.beginPath();
  context.moveTo(x - size, y - size);
  context.lineTo(x + size, y);
  context.lineTo(x - size, y + size);
  context.fill();
}

const MARKER_ROW = 15;
const MARKER_TEXT = 44; // characters

/** Markers [{ x, text }] as dashed lines with their text at the top, where one finds room from `left` on. */
export function drawMarkers(context, markers, top, bottom, left = 0) {
  const colours = palette();
  const lines = markers.map(({ x }) => Math.round(x) + 0.5);
  const taken = [];
  context.save();
  context.strokeStyle = colours.mut;
  context.setLineDash([3, 3]);
  context.textAlign = "left";
  context.beginPath();
  for (const x of lines) {
    context.moveTo(x, top);
    context.lineTo(x, bottom);
  }
  context.stroke();
  markers.forEach(({ text }, index) => {
    const shown = text.length > MARKER_TEXT ? `${text.slice(0, MARKER_TEXT - 1)}…` : text;
    const wide = context.measureText(shown).width + 6;
    const place = markerPlace(lines[index], wide, lines, taken, [left, context.canvas.clientWidth]);
    if (place === null) return;
    taken.push(place);
    context.fillStyle = colours.card;
    context.globalAlpha = 0.85;
    context.fillRect(place.left, top + place.row * MARKER_ROW, place.right - place.left, MARKER_ROW);
    context.globalAlpha = 1;
    context.fillStyle = colours.fg;
    context.fillText(shown, place.left + 3, top + place.row * MARKER_ROW + 11);
  });
  context.restore();
}

/** Shows `text` beside the pointer within `plot`; null hides it. */
function showTip(tip, plot, x, y, text) {
  setHidden(tip, text === null);
  if (text === null) return;
  setText(tip, text);
  const left = Math.max(0, Math.min(x + 14, plot.clientWidth - tip.offsetWidth - 2));
  const top = y + 16 + tip.offsetHeight > plot.clientHeight ? Math.max(-8, y - tip.offsetHeight - 10) : y + 16;
  setStyle(tip, "transform", `translate(${Math.round(left)}px, ${Math.round(top)}px)`);
}

/** Calls `text(x, y)` on pointer moves over a canvas and shows what it returns. */
export function hover(canvas, text) {
  const plot = canvas.parentElement;
  const tip = plot.querySelector(".tip");
  canvas.addEventListener("pointermove", (event) =>
    showTip(tip, plot, event.offsetX, event.offsetY, text(event.offsetX, event.offsetY)),
  );
  canvas.addEventListener("pointerleave", () => showTip(tip, plot, 0, 0, null));
}
