// A table of load runs. Given a choice, runs can be picked; given an order, headings sort.

import { linked } from "../api.js";
import { el, table } from "../dom.js";
import { clock, int, NONE, when, zone } from "../format.js";
import { SHORT } from "../words.js";
import { verdictTag } from "./verdict.js";

const took = (run) => (run.started && run.ended ? (Date.parse(run.ended) - Date.parse(run.started)) / 1000 : null);
// Of a run under way the page has newer counts than this list, so it shows none.
const counted = (name) => (run) => (run.ended && run.progress && run.progress[name] !== undefined ? run.progress[name] : null);
const warn = (text, title) => el("span", { class: "tag", "data-tone": "warn", title }, text);

export const title = (run) => run.name || run.scenario || run.id;
export const policyOf = (run) => (run.settings && run.settings.policy) || null;

const unlike = (run) =>
  Object.entries(linked(run.unlike_default || {}, ""))
    .map((pair) => pair.join("="))
    .join(" ");

const COLUMNS = [
  {
    label: "Started",
    sort: "started",
    value: (run) => run.started || run.created,
    cell: (run) => el("span", { title: zone() }, when(run.started || run.created)),
  },
  {
    label: "Run",
    sort: "run",
    value: title,
    cell: (run) =>
      el(
        "span",
        { class: "row" },
        el("a", { href: `/runs/${encodeURIComponent(run.id)}`, title: run.id }, title(run)),
        run.simulated ? warn("simulated", "nothing in it was measured") : null,
      ),
  },
  { label: "Status", sort: "status", value: (run) => run.status, cell: (run) => run.status },
  {
    label: "Verdict",
    sort: "verdict",
    value: (run) => run.verdict,
    cell: (run) =>
      el(
        "span",
        { class: "row" },
        run.bound && `bound by ${SHORT[run.bound]}`,
        verdictTag(run.verdict, run.verdict_reason),
        run.stale ? warn("stale", "rows of it have come or gone since; its report counts anew") : null,
      ),
  },
  { label: "Policy", sort: "policy", value: policyOf, cell: (run) => policyOf(run) || NONE },
  { label: "What was set", title: "for the run, then at its server", class: "wrap", cell: (run) => el("span", { class: "mono" }, unlike(run) || NONE) },
  { label: "Took", num: true, sort: "took", value: took, cell: (run) => clock(took(run)) },
  ...["sent", "ok", "failed", "refused"].map((name) => ({
    label: name[0].toUpperCase() + name.slice(1),
    num: true,
    sort: name,
    value: counted(name),
    cell: (run) => int(counted(name)(run)),
  })),
  { label: "Seed", num: true, sort: "seed", value: (run) => run.seed, cell: (run) => int(run.seed) },
];

export const SORTS = COLUMNS.filter((column) => column.sort).map((column) => column.sort);

/** The runs by `key` or `-key`, what is undefined last; of equals the order stays. */
export function ordered(runs, sort) {
  const descending = sort.startsWith("-");
  const { value } = COLUMNS.find((column) => column.sort === sort.replace(/^-/, ""));
  const [known, unknown] = [runs.filter((run) => value(run) !== null), runs.filter((run) => value(run) === null)];
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  known.sort((a, b) => (descending ? compare(value(b), value(a)) : compare(value(a), value(b))));
  return [...known, ...unknown];
}

/** `onDelete(run)`: offer to delete a run that has ended. `picked` and `onPick(run)`: a box a row. `sort` and `onSort(sort)`. */
export function runsTable(runs, { onDelete = null, picked = null, onPick = null, sort = null, onSort = null } = {}) {
  if (runs.length === 0) return el("p", { class: "empty" }, "No run yet. ", el("a", { href: "/load" }, "Start one."));
  const button = (run) =>
    el(
      "button",
      {
        type: "button",
        class: "quiet danger",
        "data-key": `delete ${run.id}`,
        "aria-label": `Delete run ${title(run)}`,
        onclick: () => onDelete(run),
      },
      "Delete",
    );
  const box = (run) =>
    el(
      "label",
      {},
      el("input", {
        type: "checkbox",
        checked: picked.includes(run.id),
        "data-key": `pick ${run.id}`,
        "aria-label": `Compare run ${title(run)}`,
        onchange: () => onPick(run),
      }),
    );
  const columns = [
    ...(onPick ? [{ label: el("span", { class: "sr" }, "Compare"), class: "pick", cell: box }] : []),
    ...COLUMNS.map((column) => (onSort && column.sort ? { ...column, label: sortButton(column, sort, onSort) } : column)),
    ...(onDelete ? [{ label: el("span", { class: "sr" }, "Delete"), cell: (run) => (run.ended ? button(run) : null) }] : []),
  ];
  const made = table(columns, runs);
  if (onSort) markSorted(made, columns, sort);
  if (onPick)
    [...made.tBodies[0].rows].forEach((row, place) => row.setAttribute("data-picked", String(picked.includes(runs[place].id))));
  return el("div", { class: "scroll" }, made);
}

function sortButton({ label, sort: key }, sort, onSort) {
  const now = sort.replace(/^-/, "") === key;
  const next = sort === `-${key}` ? key : `-${key}`;
  const mark = now ? (sort.startsWith("-") ? " ↓" : " ↑") : "";
  return el(
    "button",
    { type: "button", class: "sort", "data-key": `sort ${key}`, onclick: () => onSort(next) },
    `${label}${mark}`,
  );
}

function markSorted(made, columns, sort) {
  const place = columns.findIndex((column) => column.sort === sort.replace(/^-/, ""));
  made.tHead.rows[0].cells[place].setAttribute("aria-sort", sort.startsWith("-") ? "descending" : "ascending");
}
