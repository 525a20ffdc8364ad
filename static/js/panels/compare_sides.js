// Which runs stand beside one another: their list, what one more could be, where one could be split. Pure: data in, nodes out.

import { linked, query } from "../api.js";
import { el } from "../dom.js";
import { plural, sig3, valueText, when } from "../format.js";
import { title } from "./runs_table.js";
import { LETTERS, lineKey, MOST } from "./sides.js";
import { similar } from "./similar_runs.js";
import { verdictTag } from "./verdict.js";

/** The link that shows these runs, or the two sides of one. */
export const urlOf = ({ runs, split = null, tail = false }) =>
  `/compare${query({ runs: runs.join(","), split, tail: tail ? 1 : null }).replaceAll("%2C", ",")}`;

const runUrl = (id) => `/runs/${encodeURIComponent(id)}`;

const worded = (settings) => Object.entries(linked(settings, "")).map(([name, value]) => `${name}=${valueText(value)}`);

/** What tells a run from its like. */
function runWords(run) {
  const policy = run.settings && run.settings.policy;
  const verdict = run.verdict && run.verdict.replace("_", " ");
  const said = [when(run.started || run.created), policy, ...worded(run.scheduler || {}), verdict, run.simulated && "simulated"];
  return said.filter(Boolean).join(" · ");
}

/** The runs of an answer; `leaveOut(id)` takes one away. */
export function sideList({ runs, split, differing }, leaveOut) {
  const shown = split === null ? runs : runs.slice(0, 1);
  const item = (side, index) =>
    el(
      "li",
      { class: "row" },
      split === null ? el("span", { class: "side" }, lineKey(index), el("b", {}, LETTERS[index])) : null,
      el("a", { href: runUrl(side.run.id), title: side.run.id }, title(side.run)),
      side.verdict ? verdictTag(side.verdict) : el("span", { class: "tag" }, side.run.status),
      simulatedTag(side),
      el("small", {}, factWords(side, split === null ? differing.map((row) => [row.name, row.values[index], row.of]) : [])),
      ...side.changes.map((change) => splitLink(side.run, change)),
      shown.length > 2 ? leaveOutButton(side.run, leaveOut) : null,
    );
  return el("ul", { class: "sides" }, ...shown.map(item));
}

function simulatedTag({ run, simulated }) {
  if (!run.simulated && !simulated) return null;
  return el("span", { class: "tag", "data-tone": "warn" }, run.simulated ? "simulated" : "simulated hardware");
}

/** When, by which policy, and what tells it from the others. */
function factWords({ run, settings }, rows) {
  const own = rows.filter(([name, value, of]) => value !== null && name !== "policy" && ["settings", "parameters"].includes(of));
  return [when(run.started || run.created), settings.policy, ...worded(Object.fromEntries(own))].filter(Boolean).join(" · ");
}

function leaveOutButton(run, leaveOut) {
  const away = () => leaveOut(run.id);
  return el("button", { type: "button", class: "quiet", "aria-label": `Leave out ${title(run)}`, onclick: away }, "leave out");
}

const splitLink = (run, change) =>
  el("a", { class: "button", href: urlOf({ runs: [run.id], split: change.version }) }, `Split at ${changeWords(change)}`);

function changeWords({ at_s: at, version, changes }) {
  const said = Object.entries(changes).map(([name, value]) => `${name} → ${valueText(value)}`);
  return `${sig3(at)} s${version === null ? "" : ` (version ${version})`}${said.length ? `: ${said.join(", ")}` : ""}`;
}

/** What a split is, and who lived through it. */
export function splitWords({ split }) {
  const [were, their] = split.across === 1 ? ["it is", "its life"] : ["they are", "their lives"];
  const across = split.across
    ? `${plural(split.across, "request")} arrived before it and ended after it: ${were} counted before, though a part of ${their} had the settings after.`
    : "No request lived through it.";
  return el(
    "p",
    { class: "words" },
    el("b", {}, `Before and after ${changeWords(split)}. `),
    `A request is on the side on which it arrived, a step on the side on which it ended. ${across} `,
    "Each side's rates are over its own time, from its first request to the end of its last. ",
    "What waited at the change was handed on: the two sides are not repeats of one another.",
  );
}

/** A list to add a run from, the most alike first; null when no more can be. `add(id)` takes one. */
export function addition({ runs }, listed, add) {
  const taken = runs.map(({ run }) => run.id);
  const others = similar(runs[0].run, listed, taken, listed.length);
  if (taken.length >= MOST || others.length === 0) return null;
  const options = others.map((run) => el("option", { value: run.id }, `${title(run)} · ${runWords(run)}`));
  const chosen = (event) => event.target.value && add(event.target.value);
  return el(
    "label",
    { class: "row add" },
    el("span", {}, "Add a run"),
    el("select", { onchange: chosen }, el("option", { value: "" }, "…"), ...options),
  );
}

/** "Pick a second run": the most similar ones, each a press away; or the same run, split. `run` is null for a first one. */
export function offers(run, listed, split) {
  if (listed.length < (run ? 2 : 1)) {
    const start = el("a", { href: "/load" }, "Start one.");
    const none = el("p", { class: "empty" }, run ? "There is no second run yet. " : "No run yet. ", start);
    return run ? [none, splitForm(split)] : [none];
  }
  const choices = run ? similar(run, listed, [], 3) : listed.slice(0, 8);
  const link = (other) => el("a", { href: urlOf({ runs: run ? [run.id, other.id] : [other.id] }) }, title(other));
  return [
    el("h2", {}, run ? `Pick a second run, to hold against ${title(run)}` : "Pick a first run"),
    run ? el("p", { class: "mut" }, `${runWords(run)} · the runs most like it:`) : null,
    el("ul", { class: "choices-list" }, ...choices.map((other) => el("li", {}, link(other), el("small", {}, runWords(other))))),
    run ? splitForm(split) : null,
    el("p", {}, el("a", { href: "/runs" }, "all runs")),
  ];
}

function splitForm(split) {
  const seconds = el("input", {
    type: "number",
    min: 0,
    step: "any",
    class: "short",
    "aria-label": "Seconds since it began",
  });
  const asked = (event) => {
    event.preventDefault();
    if (seconds.value) split(`${Number(seconds.value)}s`);
  };
  const words = "or hold it against itself, before and after";
  return el(
    "form",
    { class: "row", onsubmit: asked },
    el("span", {}, words),
    seconds,
    "s",
    el("button", { type: "submit" }, "Split"),
  );
}

export function tooMany(ids) {
  return [
    el("p", { class: "error" }, `At most ${MOST} runs can be compared at once; this link names ${ids.length}.`),
    el("ul", {}, ...ids.map((id) => el("li", {}, el("a", { href: runUrl(id) }, id)))),
    el(
      "p",
      { class: "empty" },
      el("a", { class: "button", href: urlOf({ runs: ids.slice(0, MOST) }) }, `Compare the first ${MOST}`),
    ),
  ];
}
