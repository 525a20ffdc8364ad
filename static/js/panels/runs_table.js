// A table of load runs, newest first.

import { el, table } from "../dom.js";
import { clock, int, NONE, when, zone } from "../format.js";
import { verdictTag } from "./verdict.js";

// Of a run under way the page has newer counts than this list, so it shows none.
const progress = (run, name) => (run.ended && run.progress && run.progress[name] !== undefined ? int(run.progress[name]) : NONE);
const seconds = (run) => (run.started && run.ended ? (Date.parse(run.ended) - Date.parse(run.started)) / 1000 : null);

const COLUMNS = [
  { label: "Started", cell: (run) => el("span", { title: zone() }, when(run.started || run.created)) },
  {
    label: "Run",
    cell: (run) => el("a", { href: `/runs/${encodeURIComponent(run.id)}`, title: run.id }, run.name || run.scenario || run.id),
  },
  { label: "Status", cell: (run) => run.status },
  { label: "Verdict", cell: (run) => verdictTag(run.verdict) },
  { label: "Policy", cell: (run) => (run.settings && run.settings.policy) || NONE },
  { label: "Took", num: true, cell: (run) => clock(seconds(run)) },
  { label: "Sent", num: true, cell: (run) => progress(run, "sent") },
  { label: "Ok", num: true, cell: (run) => progress(run, "ok") },
  { label: "Failed", num: true, cell: (run) => progress(run, "failed") },
  { label: "Refused", num: true, cell: (run) => progress(run, "refused") },
  { label: "Seed", num: true, cell: (run) => int(run.seed) },
  {
    label: "Changed settings",
    class: "wrap",
    cell: (run) =>
      el(
        "span",
        { class: "mono" },
        Object.entries(run.scheduler || {})
          .map(([name, value]) => `${name}=${value}`)
          .join(" ") || NONE,
      ),
  },
];

export function runsTable(runs) {
  if (runs.length === 0) return el("p", { class: "empty" }, "No run yet. ", el("a", { href: "/load" }, "Start one."));
  return el("div", { class: "scroll" }, table(COLUMNS, runs));
}
