// The editor of a load shape: points on a canvas, the same in a table, and their text, which is the value. Sends nothing.
// Pointer: drag a point, double-click adds one. Keys: see HELP. What cannot be is kept as text, for the server to say why.

import { el, setAttr, setText } from "../dom.js";
import { sig3 } from "../format.js";
import { onTheme, palette } from "../theme.js";
import { begin, line, scales } from "./rate_plot.js";
import { niceStep } from "./scale.js";
import { added, moved, PRESETS, read, removed, write } from "./shape_points.js";
import { field } from "./settings_form.js";

const HELP = "Arrows move a point (Shift: ten times as far), Page Up and Page Down choose one, Enter adds one after it, Delete removes it";
const NEAR = 14; // pixels from a point that take hold of it

/** As settings_form's `field`; `seconds()`: how long the run will be; `changed()` is called after each edit. */
export function shapeField(spec, text, seconds, changed) {
  const plain = field(spec, text);
  const canvas = el("canvas", { tabindex: 0, role: "application", "aria-describedby": "shape-help" });
  const [said, rows] = [el("p", { class: "sr", role: "status" }), el("tbody")];
  const editor = { plain, canvas, said, rows, seconds, changed, points: read(text) || [[0, 1]], at: 0, held: null };
  const presets = Object.keys(PRESETS).map((name) => el("button", { type: "button", onclick: () => preset(editor, name) }, name));
  const more = el("button", { type: "button", class: "quiet", onclick: () => addAfter(editor) }, "Add a point");
  const head = el("thead", {}, el("tr", {}, ...["second", "arrivals a second", ""].map((label) => el("th", {}, label))));
  wire(editor);
  const noStart = (event) => event.key === "Enter" && event.target.matches("input") && (event.preventDefault(), event.target.blur());
  return {
    ...plain,
    node: el(
      "div",
      { class: "shape", onkeydown: noStart },
      el("div", { class: "row" }, el("span", { class: "mut" }, "Begin with"), ...presets),
      el("div", { class: "plot" }, canvas),
      el("p", { class: "hint", id: "shape-help" }, `Drag points, double-click for a new one. ${HELP}.`),
      el("div", { class: "scroll" }, el("table", {}, head, rows), more),
      plain.node,
      said,
    ),
    redraw: () => draw(editor),
  };
}

function wire(editor) {
  const { canvas, plain } = editor;
  plain.input.maxLength = 4096;
  plain.input.addEventListener("change", () => {
    const points = read(plain.input.value);
    if (points) set(editor, points, Math.min(editor.at, points.length - 1));
    else editor.changed();
  });
  canvas.addEventListener("pointerdown", (event) => hold(editor, event));
  canvas.addEventListener("pointermove", (event) => editor.held && drag(editor, event));
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => release(editor));
  canvas.addEventListener("dblclick", (event) => {
    const scale = editor.scale;
    const [t, rate] = snapped(scale, scale.t(event.offsetX), scale.rate(event.offsetY));
    if (nearest(editor, event) === null && t > 0) set(editor, ...added(editor.points, t, Math.max(0, rate)));
  });
  canvas.addEventListener("keydown", (event) => {
    const act = KEYS[event.key];
    if (!act || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    act(editor, event.shiftKey ? 10 : 1);
  });
  new ResizeObserver(() => draw(editor)).observe(canvas);
  onTheme(() => draw(editor));
}

const KEYS = {
  ArrowLeft: (editor, times) => nudge(editor, -times, 0),
  ArrowRight: (editor, times) => nudge(editor, times, 0),
  ArrowDown: (editor, times) => nudge(editor, 0, -times),
  ArrowUp: (editor, times) => nudge(editor, 0, times),
  PageUp: (editor) => choose(editor, editor.at - 1),
  PageDown: (editor) => choose(editor, editor.at + 1),
  Enter: addAfter,
  Delete: (editor) => drop(editor, editor.at),
  Backspace: (editor) => drop(editor, editor.at),
};

/** New points and the chosen one; the text, the table and whoever listens follow. */
function set(editor, points, at = editor.at) {
  Object.assign(editor, { points, at });
  editor.plain.input.value = write(points);
  draw(editor);
  say(editor);
  if (!editor.held) editor.changed();
}

function choose(editor, at) {
  editor.at = Math.max(0, Math.min(editor.points.length - 1, at));
  draw(editor);
  say(editor);
}

function say(editor) {
  const [t, rate] = editor.points[editor.at];
  setText(editor.said, `point ${editor.at + 1} of ${editor.points.length}: ${sig3(rate)} arrivals a second at ${sig3(t)} s`);
}

const steps = ({ seconds, most }) => [niceStep(seconds, 120), niceStep(most, 80)];

function snapped(scale, t, rate) {
  const [dt, dr] = steps(scale);
  return [Math.round(t / dt) * dt, Math.round(rate / dr) * dr];
}

function nudge(editor, right, up) {
  const [dt, dr] = steps(editor.scale);
  const [t, rate] = editor.points[editor.at];
  set(editor, moved(editor.points, editor.at, t + right * dt, rate + up * dr));
}

function addAfter(editor) {
  const [here, next] = [editor.points[editor.at], editor.points[editor.at + 1]];
  const t = next ? (here[0] + next[0]) / 2 : here[0] + Math.max(1, editor.seconds() / 10);
  set(editor, ...added(editor.points, t));
}

function drop(editor, at) {
  const points = removed(editor.points, at);
  set(editor, points, Math.min(at, points.length - 1));
}

function preset(editor, name) {
  const high = Math.max(...editor.points.map(([, rate]) => rate)) || 8;
  set(editor, PRESETS[name](editor.seconds(), high / 8, high), 0);
}

function nearest(editor, { offsetX, offsetY }) {
  const far = editor.points.map(([t, rate]) => Math.hypot(editor.scale.x(t) - offsetX, editor.scale.y(rate) - offsetY));
  const least = Math.min(...far);
  return least <= NEAR ? far.indexOf(least) : null;
}

function hold(editor, event) {
  const at = nearest(editor, event);
  if (at === null) return;
  editor.canvas.setPointerCapture(event.pointerId);
  choose(editor, at);
  editor.held = editor.scale; // the axes stand still while a point moves
}

function drag(editor, { offsetX, offsetY }) {
  const { held } = editor;
  const [t, rate] = snapped(held, held.t(offsetX), Math.min(held.most, held.rate(offsetY)));
  set(editor, moved(editor.points, editor.at, t, rate));
}

function release(editor) {
  if (!editor.held) return;
  editor.held = null;
  set(editor, editor.points);
}

function draw(editor) {
  const { canvas, points, at } = editor;
  tabulate(editor);
  if (!canvas.clientWidth) return;
  const end = Math.max(editor.seconds(), points.at(-1)[0]);
  const scale = editor.held || scales(canvas, end, Math.max(...points.map(([, rate]) => rate)));
  editor.scale = scale;
  const [context, colours] = [begin(canvas, scale), palette()];
  line(context, scale, [...points, [scale.seconds, points.at(-1)[1]]], colours.prefill);
  points.forEach(([t, rate], i) => {
    context.beginPath();
    context.arc(scale.x(t), scale.y(rate), i === at ? 7 : 5, 0, 7);
    context.fillStyle = i === at ? colours.prefill : colours.card;
    context.fill();
    context.stroke();
  });
  setAttr(canvas, "aria-label", `Load shape of ${points.length} points; the table has the same`);
}

/** As many rows as points; a row keeps its fields, in which somebody may be typing, for as long as it is there. */
function tabulate(editor) {
  const { rows, points } = editor;
  while (rows.children.length > points.length) rows.lastChild.remove();
  while (rows.children.length < points.length) rows.append(row(editor, rows.children.length));
  [...rows.querySelectorAll("input")].forEach((input, n) => {
    if (input !== document.activeElement) input.value = Number(points[n >> 1][n % 2].toFixed(3));
  });
}

function row(editor, i) {
  const cell = (which, label) => {
    const input = el("input", { type: "number", min: 0, step: "any", "aria-label": `point ${i + 1}: ${label}` });
    input.disabled = i === 0 && which === 0;
    input.addEventListener("change", () => {
      const place = editor.points[i].map((value, n) => (n === which ? Number(input.value) : value));
      set(editor, moved(editor.points, i, ...place), i);
      input.value = Number(editor.points[i][which].toFixed(3));
    });
    return el("td", {}, input);
  };
  const away = el("button", { type: "button", class: "quiet", "aria-label": `remove point ${i + 1}`, disabled: i === 0 }, "×");
  away.addEventListener("click", () => drop(editor, i));
  return el("tr", {}, cell(0, "second"), cell(1, "arrivals a second"), el("td", {}, away));
}
