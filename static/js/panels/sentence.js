// The sentence on top: what binds now; what serves; whether the hardware is simulated; whether there is anything to see.

import { get } from "../api.js";
import { $, el, replace, setAttr, setHidden, setStyle, setText } from "../dom.js";
import { sentence } from "../words.js";

let earlier = false; // do the records hold what ran before this start?

/** Asks the records once what ran last, and puts a link to it where the page says that nothing has run. */
export async function tellEarlier() {
  const [run, request] = await Promise.all(["runs", "requests"].map(newest));
  earlier = run !== null || request !== null;
  if (!earlier) return;
  const link = run
    ? el("a", { href: `/runs/${encodeURIComponent(run.id)}` }, `the last run, ${run.scenario || run.name || run.id}`)
    : el("a", { href: "/requests" }, "the requests before");
  replace($("#before"), "Nothing has run since this start; the records have ", link, ".");
}

async function newest(what) {
  try {
    return (await get(`/api/${what}?limit=1`)).items[0] || null;
  } catch {
    return null; // the page says then what it knows by itself
  }
}

export function drawSentence(state) {
  const { text, reason } = sentence(state.gauges, earlier);
  setText($("#sentence"), text);
  setStyle($(".says .mark"), "background", reason ? `var(--r-${reason})` : "var(--ok)");
  if (state.server === null) return;
  const { simulated, hardware, runner, model, device, dtype, policy } = state.server;
  const badge = $("#simulated");
  setHidden(badge, !simulated);
  if (simulated)
    setText(badge, runner === "null" ? "no hardware: null runner" : `simulated hardware: ${hardware || "unnamed"}`);
  const parts = [model, simulated ? null : [device, dtype].filter(Boolean).join(" "), policy && `policy ${policy}`];
  setText($("#serves"), parts.filter(Boolean).join(" · "));
  const empty = state.steps.seq.length === 0 && state.bars.size === 0;
  setAttr(document.body, "data-empty", String(empty));
}
