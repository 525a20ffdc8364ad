// A table of load runs, newest first.

import { el, table } from "../dom.js";
import { clock, int, NONE, when, zone } from "../format.js";
import { verdictTag } from "./verdict.js";

// Of a run under way the page has newer counts than this list, so it shows none.
const progress = (run, name) => (run.ended && run.progress && run.progress[name] !== undefined ? int(run.progress[name]) : NONE);
const seconds = (run) => (run.started && run.ended ? (Date.parse(run.ended) - Date.parse(run.started)) / 1000 : null);

export const title = (run) => run.name || run.scenario || run.id;

const COLUMNS = [
  { label: "Started", cell: (run) => el("span", { title: zone() }, when(run.started || run.created)) },
  {
    label: "Run",
    cell: (run) =>
      el(
        "span",
        { class: "row" },
        el("a", { href: `/runs/${encodeURIComponent(run.id)}`, title: run.id }, title(run)),
        run.simulated ? el("span", { class: "tag", "data-tone": "warn", title: "nothing in it was measured" }, "simulated") : null,
      ),
  },
  { label: "Status", cell: (run) => run.status },
  {
    label: "Verdict",
    cell: (run) =>
      el(
        "span",
        { class: "row" },
        verdictTag(run.verdict),
        run.stale
          ? el("span", { class: "tag", "data-tone": "warn", title: "rows of it have come or gone since; its report counts anew" }, "stale")
          : null,
      ),
  },
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

/** `onDelete(run)`: offer to delete a run that has ended. */
export function runsTable(runs, onDelete = null) {
  if (runs.length === 0) return el("p", { class: "empty" }, "No run yet. ", el("a", { href: "/load" }, "Start one."));
  const button = (run) =>
    el("button", { type: "button", class: "quiet danger", "aria-label": `Delete run ${title(run)}`, onclick: () => onDelete(run) }, "Delete");
  const deletion = { label: "", cell: (run) => (run.ended ? button(run) : null) };
  return el("div", { class: "scroll" }, table(onDelete ? [...COLUMNS, deletion] : COLUMNS, runs));
}
