// What is kept, and letting go of it: the server's bounds, a dry run of other ones, and then the deed, piece by piece.
// Invariant: nothing is removed that the dry run did not name first and the reader did not confirm.

import { $, replace, setHidden, setText } from "../dom.js";
import { failure } from "./failure.js";
import { get, post } from "../api.js";
import { int, NONE, sig3, when } from "../format.js";

const PATH = "/api/db";
const DAY_S = 86_400;
const UNITS = [
  [1e9, "GB"],
  [1e6, "MB"],
  [1e3, "kB"],
];
const NAMES = { request_events: "events", client_requests: "lines of load generators" };

/** Bytes by powers of 1000, as the commands write them: 812 B, 3.40 MB. */
function bytes(count) {
  if (count === null || count === undefined) return NONE;
  const [size, unit] = UNITS.find(([least]) => count >= least) || [1, "B"];
  return `${sig3(count / size)} ${unit}`;
}

/** "2 runs, 10 requests, 40 events". */
function rows(removed) {
  return Object.entries(removed)
    .map(([name, count]) => `${int(count)} ${NAMES[name] || name}`)
    .join(", ");
}

function boundsText({ retain_days: days, retain_gb: gb }) {
  const parts = [days && `${int(days)} days`, gb && `at most ${sig3(gb)} GB`].filter(Boolean);
  return parts.length ? `${parts.join(", ")}; what is beyond goes once an hour` : "for ever";
}

/** {older_than_s, larger_than_bytes, keep_runs} of the form; null where neither bound is given. */
function rule(form) {
  const value = (name) => (form.elements[name].value === "" ? null : Number(form.elements[name].value));
  const [days, gb] = [value("days"), value("gb")];
  if (days === null && gb === null) return null;
  const asked = { keep_runs: form.elements.keep_runs.checked };
  if (days !== null) asked.older_than_s = days * DAY_S;
  if (gb !== null) asked.larger_than_bytes = Math.round(gb * 1e9);
  return asked;
}

/** Fills #keeping, a form with days, gb, keep_runs, #foretell and #prune. */
export function createKeeping() {
  const form = $("#keeping");
  const note = $("#kept-note");
  let foretold = null; // the rule whose dry run is on the page

  async function show() {
    try {
      const kept = await get(PATH);
      setText($("#kept"), boundsText(kept));
      setText($("#kept-size"), kept.bytes === null ? "known to the database's own server" : `${bytes(kept.bytes)} in use`);
      setText($("#kept-since"), kept.oldest === null ? NONE : when(kept.oldest));
    } catch (error) {
      replace(note, failure(error, again));
    }
  }

  async function again() {
    setText(note, "");
    await show();
  }

  async function foretell() {
    const asked = rule(form);
    setHidden($("#prune"), true);
    if (asked === null) return setText(note, "Say what may go: older than so many days, or what is beyond so many GB.");
    setText(note, "…");
    const told = await post(`${PATH}/prune`, { ...asked, dry_run: true });
    const then = told.oldest_kept ? `the oldest request left would be of ${when(told.oldest_kept)}` : "no request would be left";
    const any = Object.keys(told.removed).length > 0;
    const size = told.bytes === null ? "" : `, about ${bytes(told.removed_bytes)} of ${bytes(told.bytes)}`;
    setText(note, any ? `Would remove ${rows(told.removed)}${size}; ${then}.` : `Nothing would go; ${then}.`);
    foretold = any ? asked : null;
    setHidden($("#prune"), !any);
  }

  async function prune() {
    if (!confirm("Remove these records? This cannot be undone.")) return;
    setHidden($("#prune"), true);
    const gone = {};
    let told = { done: false, reached: null };
    while (!told.done) {
      told = await post(`${PATH}/prune`, { ...foretold, ...(told.reached ? { since: told.reached } : {}) });
      for (const [name, count] of Object.entries(told.removed)) gone[name] = (gone[name] || 0) + count;
      setText(note, `Removed ${rows(gone) || "nothing"}${told.done ? "." : ` so far, at ${when(told.reached)}`}`);
    }
    await show();
  }

  const guarded = (deed) => () => deed().catch((error) => setText(note, error.message));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    guarded(foretell)();
  });
  form.addEventListener("input", () => {
    foretold = null;
    setHidden($("#prune"), true);
    setText(note, "");
  });
  $("#prune").addEventListener("click", guarded(prune));
  show();
}
