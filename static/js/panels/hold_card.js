// The hold: an operator stops the engine between two steps and lets it take one at a time. Each says who was picked, who was not,
// and why, from the records of that step; who waits longest, and for what, is from the live state.

import { $, el, replace, setHidden, setText, swatch, table } from "../dom.js";
import { post } from "../api.js";
import { blockersWords } from "../blocked.js";
import { int, ms, requestUrl, shortId } from "../format.js";
import { SHORT } from "../words.js";
import { recorded, stepNodes } from "./step_card.js";

const STEP_MS = 3000; // for the step to be seen
const ASKS = "Press Step: one forward pass, and who was picked.";

export function createHold(store) {
  const card = $("#hold");
  const buttons = { pause: $("#pause"), step: $("#one-step"), resume: $("#resume") };
  let busy = false;

  async function act(what) {
    if (busy) return;
    busy = true;
    try {
      if (what === "step") await oneStep(store, card);
      else await post(`/api/scheduler/${what}`);
      if (what === "resume") replace($(".body", card), el("p", { class: "empty" }, ASKS));
    } catch (error) {
      setText(what === "pause" ? $("#pause-note") : $(".note", card), error.message);
    } finally {
      busy = false;
    }
  }

  for (const [what, button] of Object.entries(buttons)) button.addEventListener("click", () => act(what));
  const draw = (state) => {
    const engine = state.gauges ? state.gauges.engine : "loading";
    setHidden(card, engine !== "paused");
    setHidden(buttons.pause, engine !== "up");
  };
  return { draw, act, isHeld: () => store.state.gauges !== null && store.state.gauges.engine === "paused" };
}

async function oneStep(store, card) {
  const note = $(".note", card);
  const before = newest(store.state);
  setText(note, "stepping…");
  await post("/api/scheduler/step");
  const made = await later(store, before);
  if (made === null) return setText(note, "no step was made: nobody can run");
  setText(note, "reading it from the records…");
  const step = await recorded(made.boot, made.seq);
  setText(note, `step ${int(step.step)} was made`);
  replace($(".body", card), stepNodes(step), inLine(store.state.waitingNow, step.waiting));
}

const newest = (state) => ({ boot: state.boot, seq: state.steps.seq.at(-1) || 0 });

/** The first step after `before` that the page hears of; null when none comes. */
function later(store, before) {
  return new Promise((resolve) => {
    const started = performance.now();
    const look = () => {
      const now = newest(store.state);
      if (now.boot !== before.boot || now.seq > before.seq) resolve(now);
      else if (performance.now() - started > STEP_MS) resolve(null);
      else setTimeout(look, 30);
    };
    look();
  });
}

/** The ten that wait longest after the step, each with what it would wait for if nobody held the engine. */
function inLine(rows, waiting) {
  if (rows.length === 0) return el("span");
  const reason = ({ beneath }) => {
    if (!beneath) return "";
    const words = blockersWords(beneath.blockers);
    return el("span", { class: "reason" }, swatch(`r-${beneath.reason}`), `${SHORT[beneath.reason]}${words ? `: ${words}` : ""}`);
  };
  const link = (row) => el("a", { class: "mono", href: requestUrl(row.id), title: row.id }, shortId(row.id));
  const columns = [
    { label: "Still in line", cell: link },
    { label: "Tenant", cell: (row) => row.tenant },
    { label: "Waited", num: true, cell: (row) => ms(row.waited_ms) },
    { label: "Prompt tokens", num: true, cell: (row) => int(row.prompt_tokens) },
    { label: "What it lacks", class: "wrap", cell: reason },
  ];
  const rest = waiting - rows.length;
  const more = rest > 0 && el("small", {}, `and ${int(rest)} more; the longest waiting are shown`);
  return el("div", { class: "scroll line" }, table(columns, rows), more);
}
