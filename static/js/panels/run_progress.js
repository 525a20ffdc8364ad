// Progress of the active run: bar, counts, Stop. What is shown is what the server said, never what was clicked.

import { $, el, replace, setAttr, setHidden, setStyle, setText } from "../dom.js";
import { post } from "../api.js";
import { clock, int } from "../format.js";
import { RUN_LIVE } from "../shell.js";

const COUNTS = ["sent", "ok", "failed", "refused", "cancelled", "in_flight"];

/** Draws `state.run` into `card` while it is active; `only` shows no other run than that id. */
export function drawProgress(card, state, only = null) {
  const run = state.run;
  const live = run !== null && RUN_LIVE.includes(run.status) && (only === null || run.id === only);
  setHidden(card, !live);
  if (!live) return;
  if (card.dataset.run !== run.id) build(card, run);
  const of = run.duration_s ? ` of ${clock(run.duration_s)}` : "";
  setText($(".phase", card), `${run.scenario || run.name || run.id} · ${run.status} ${clock(run.elapsed_s)}${of}`);
  setStyle($(".bar > i", card), "width", `${run.duration_s ? Math.min(100, (100 * run.elapsed_s) / run.duration_s) : 0}%`);
  for (const name of COUNTS) setText($(`[data-count="${name}"]`, card), int(run[name] === undefined ? null : run[name]));
  setAttr($("button", card), "disabled", run.status === "draining" ? "" : null);
}

function build(card, run) {
  card.dataset.run = run.id;
  const note = el("span", { class: "mut", role: "status" });
  const stop = el("button", { type: "button", class: "danger" }, "Stop");
  stop.addEventListener("click", async () => {
    setText(note, "stopping…");
    try {
      await post(`/api/runs/${encodeURIComponent(run.id)}/stop`);
      setText(note, "what is in flight is drained and kept");
    } catch (error) {
      setText(note, error.message);
    }
  });
  const counts = COUNTS.map((name) => el("div", {}, el("b", { "data-count": name }), el("span", {}, name.replace("_", " "))));
  replace(
    card,
    el(
      "div",
      { class: "cardhead" },
      el("h2", { class: "phase" }),
      el("a", { href: `/runs/${encodeURIComponent(run.id)}` }, "report"),
      el("a", { href: "/" }, "watch live"),
      el("span", { class: "end" }, note, stop),
    ),
    el("div", { class: "stack" }, el("div", { class: "bar" }, el("i")), el("div", { class: "counts" }, ...counts)),
  );
}
