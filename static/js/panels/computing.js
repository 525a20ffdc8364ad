// The figures of a long run are being made: of which, how far, and how to end it. Asks for nothing by itself; knows no page.

import { $, el, replace, setAttr, setText } from "../dom.js";
import { post } from "../api.js";
import { int } from "../format.js";

/** Draws into `box` how `far` the figures of the run called `name` are; what stands there already is kept, a focus with it. */
export function drawComputing(box, far, name) {
  if (!$("progress", box)) build(box);
  box.dataset.making = far.run;
  const among = far.runs > 1 ? ` · ${int(far.ready)} of ${int(far.runs)} runs are ready` : "";
  const words = `Making the figures of ${name}: ${far.what.replace("_", " ")}, ${int(far.rows)} of ${int(far.of)} rows, ${far.elapsed_s} s${among}`;
  setText($("p", box), words);
  const bar = $("progress", box);
  setAttr(bar, "max", far.of);
  setAttr(bar, "value", Math.min(far.rows, far.of));
}

function build(box) {
  const words = el("p", { class: "mut" });
  const stop = () => post(`/api/runs/${encodeURIComponent(box.dataset.making)}/report/stop`, {}).catch((error) => setText(words, error.message));
  const end = el("p", { class: "row" }, el("button", { type: "button", onclick: stop }, "Stop"), el("small", {}, "Made once, they are kept, and it goes on if you leave."));
  replace(box, el("div", { class: "stack" }, words, el("progress", { "aria-label": "rows read" }), end));
}
