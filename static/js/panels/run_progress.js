// Progress of the active run: bar, counts, its rate, Stop. What is shown is what the load generator said, never what was clicked.

import { $, el, replace, setAttr, setHidden, setStyle, setText } from "../dom.js";
import { post } from "../api.js";
import { int, sig3 } from "../format.js";
import { RUN_LIVE } from "../shell.js";
import { phaseWords } from "../words.js";

const COUNTS = ["sent", "ok", "failed", "refused", "cancelled", "in_flight"];
const FACTORS = [0.1, 0.2, 0.5, 1, 1.5, 2, 3, 5, 10];

/** Draws `state.run` into `card` while it is active; `only` shows no other run than that id. */
export function drawProgress(card, state, only = null) {
  const run = state.run;
  const live = run !== null && RUN_LIVE.includes(run.status) && (only === null || run.id === only);
  setHidden(card, !live);
  if (!live) return;
  if (card.dataset.run !== run.id) build(card, run);
  setText($(".phase", card), `${run.scenario || run.name || run.id} · ${phaseWords(run)}`);
  setStyle($(".bar > i", card), "width", `${run.duration_s ? Math.min(100, (100 * run.elapsed_s) / run.duration_s) : 0}%`);
  for (const name of COUNTS) setText($(`[data-count="${name}"]`, card), int(run[name] === undefined ? null : run[name]));
  setAttr($("button.danger", card), "disabled", run.status === "draining" ? "" : null);
  drawRate($(".rate", card), run);
}

/** Of a run whose generator is somebody else's, or has not spoken yet, nobody knows the rate; one that drains has none. */
function drawRate(box, run) {
  const factor = run.rate_factor;
  setHidden(box, factor === null || factor === undefined || run.status === "draining");
  if (box.hidden) return;
  box.dataset.factor = factor;
  const users = run.users === null ? "" : ` · ${int(run.users)} users`;
  setText($("b", box), `rate × ${factor}${users}`);
  const known = JSON.stringify(run.rate_changes);
  if (known === box.dataset.known) return;
  box.dataset.known = known;
  setText($("[role=status]", box), run.rate_changes.map((each) => `× ${each.factor} at ${sig3(each.at_s)} s`).join(", "));
}

function rateControls(run) {
  const note = el("span", { class: "mut", role: "status" });
  const input = el("input", { class: "short", type: "number", min: 0.1, max: 10, step: "any", "aria-label": "times the scenario's rate" });
  const ask = async (factor) => {
    setText(note, `asking for × ${factor}…`);
    try {
      await post(`/api/runs/${encodeURIComponent(run.id)}/rate`, { factor });
    } catch (error) {
      setText(note, error.message);
    }
  };
  const now = () => Number(box.dataset.factor);
  const less = () => ask(FACTORS.findLast((factor) => factor < now()) || FACTORS[0]);
  const more = () => ask(FACTORS.find((factor) => factor > now()) || FACTORS.at(-1));
  const apply = (event) => {
    event.preventDefault();
    if (input.value !== "") ask(Number(input.value));
  };
  const box = el(
    "form",
    { class: "row rate", hidden: true, onsubmit: apply },
    el("button", { type: "button", "aria-label": "lower the rate", onclick: less }, "−"),
    el("b", {}),
    el("button", { type: "button", "aria-label": "raise the rate", onclick: more }, "+"),
    input,
    el("button", {}, "Apply"),
    note,
  );
  return box;
}

function stopButton(run, note, [label, why], body, said) {
  const stop = el("button", { type: "button", class: body ? "" : "danger", title: why }, label);
  stop.addEventListener("click", async () => {
    setText(note, "stopping…");
    try {
      await post(`/api/runs/${encodeURIComponent(run.id)}/stop`, body);
      setText(note, said);
    } catch (error) {
      setText(note, error.message);
    }
  });
  return stop;
}

function build(card, run) {
  card.dataset.run = run.id;
  const note = el("span", { class: "mut", role: "status" });
  const stop = stopButton(run, note, ["Stop", "send no more, wait for what is in flight"], undefined, "what is in flight is drained and kept");
  const now = stopButton(run, note, ["Stop now", "do not wait for what is in flight"], { now: true }, "what was in flight is incomplete");
  const counts = COUNTS.map((name) => el("div", {}, el("b", { "data-count": name }), el("span", {}, name.replace("_", " "))));
  replace(
    card,
    el(
      "div",
      { class: "cardhead" },
      el("h2", { class: "phase" }),
      el("a", { href: `/runs/${encodeURIComponent(run.id)}` }, "report"),
      el("a", { href: "/" }, "watch live"),
      el("span", { class: "end" }, note, stop, now),
    ),
    el("div", { class: "stack" }, el("div", { class: "bar" }, el("i")), el("div", { class: "counts" }, ...counts), rateControls(run)),
  );
}
