// The sentence on top: what binds now; what serves; whether the hardware is simulated; whether there is anything to see.

import { $, setAttr, setHidden, setStyle, setText } from "../dom.js";
import { sentence } from "../words.js";

export function drawSentence(state) {
  const { text, reason } = sentence(state.gauges);
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
