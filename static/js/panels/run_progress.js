// Progress of the active run: bar, counts, its rate, Stop. What is shown is what the load generator said, never what was clicked.

import { $, $$, setAttr, setHidden, setStyle, setText } from "../dom.js";
import { post } from "../api.js";
import { int, sig3 } from "../format.js";
import { RUN_LIVE } from "../shell.js";
import { phaseWords } from "../words.js";

const FACTORS = [0.1, 0.2, 0.5, 1, 1.5, 2, 3, 5, 10];

/** Draws `state.run` into `card` (progress.html) while it is active; `only` shows no other run than that id. */
export function drawProgress(card, state, only = null) {
  const run = state.run;
  const live = run !== null && RUN_LIVE.includes(run.status) && (only === null || run.id === only);
  setHidden(card, !live);
  if (!live) return;
  if (card.dataset.run === undefined) wire(card);
  if (card.dataset.run !== run.id) for (const note of $$("[role=status]", card)) setText(note, "");
  card.dataset.run = run.id;
  setAttr($(".report", card), "href", `/runs/${encodeURIComponent(run.id)}`);
  setText($(".phase", card), `${run.scenario || run.name || run.id} · ${phaseWords(run)}`);
  setStyle($(".bar > i", card), "width", `${run.duration_s ? Math.min(100, (100 * run.elapsed_s) / run.duration_s) : 0}%`);
  for (const each of $$("[data-count]", card)) setText(each, int(run[each.dataset.count] ?? null));
  setAttr($(".danger", card), "disabled", run.status === "draining" ? "" : null);
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
  const known = run.id + JSON.stringify(run.rate_changes);
  if (known === box.dataset.known) return;
  box.dataset.known = known;
  setText($("[role=status]", box), run.rate_changes.map((each) => `× ${each.factor} at ${sig3(each.at_s)} s`).join(", "));
}

/** Asks the server, in words before, in words after: `said`, or what was wrong. */
async function ask(card, note, before, what, body, said = before) {
  setText(note, before);
  try {
    await post(`/api/runs/${encodeURIComponent(card.dataset.run)}/${what}`, body);
    setText(note, said);
  } catch (error) {
    setText(note, error.message);
  }
}

function wire(card) {
  const [note, rate] = [$(".note", card), $(".rate", card)];
  for (const stop of $$("[data-said]", card))
    stop.onclick = () => ask(card, note, "stopping…", "stop", "now" in stop.dataset ? { now: true } : undefined, stop.dataset.said);
  const [less, more] = $$("[aria-label$=rate][type=button]", rate);
  const [input, told] = [$("input", rate), $("[role=status]", rate)];
  const turn = (factor) => ask(card, told, `asking for × ${factor}…`, "rate", { factor });
  less.onclick = () => turn(FACTORS.findLast((factor) => factor < rate.dataset.factor) || FACTORS[0]);
  more.onclick = () => turn(FACTORS.find((factor) => factor > rate.dataset.factor) || FACTORS.at(-1));
  rate.onsubmit = (event) => {
    event.preventDefault();
    if (input.value !== "") turn(Number(input.value));
  };
}
