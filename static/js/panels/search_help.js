// What can be asked, by example. The names come from the server, so that none is missing.

import { el, replace } from "../dom.js";

export function drawSearchHelp(node, { words, measures }) {
  const row = (code, text) => [el("code", {}, code), el("span", {}, text)];
  const names = Object.keys(measures);
  const waits = names.filter((name) => name.startsWith("wait.")).map((name) => name.slice(5));
  const named = (unit) => names.filter((name) => measures[name] === unit && !name.startsWith("wait.")).join(", ");
  replace(
    node,
    ...row('tenant:a  kind:"two words"', `fields: ${words.join(", ")}`),
    ...row("state:waiting,running", "any of several"),
    ...row("ttft>500ms  e2e<=2s", `durations, with ms or s: ${named("ms")}`),
    ...row("ttft:none", "those that have none"),
    ...row("run:poisson", "a run's id, name or scenario"),
    ...row("wait.kv_blocks>200ms", `time waited for a reason: ${waits.join(", ")}`),
    ...row("preemptions>0", `counts: ${named(null)}`),
    ...row("since:2026-11-30T10:00", "received at or after, ISO 8601 (UTC without a zone); until: before"),
    ...row('"c0ffee"', "part of the id or of the client's id. All terms must hold."),
  );
}
