// Changes of the scheduler's settings: in words, and as the card that lists those on record. Knows no form.

import { $, el, replace, table } from "../dom.js";
import { get, query } from "../api.js";
import { int, NONE, valueText, whenShort } from "../format.js";
import { failure } from "./failure.js";

const AROUND_S = 5; // to either side of a change, on the timeline
const RECORD_MS = 300; // the records are a moment behind
const TRIES = 6;

/** "max_num_seqs 16 → 8, policy fcfs → vtc", of [{ name, from, to }]. */
export const changeWords = (changes) =>
  changes.map(({ name, from, to }) => `${name} ${valueText(from)} → ${valueText(to)}`).join(", ");

/** Whose settings a run's own are, was decided a moment before it was made. */
export const placeWords = ({ name, at_s: t }) => `${name}, ${t < 0.05 ? "at its start" : `${t.toFixed(1)} s`}`;

function place({ run }) {
  if (run === null) return NONE;
  const href = `/timeline${query({ run: run.id, from: run.at_s - AROUND_S, to: run.at_s + AROUND_S })}`;
  return el("a", { href, title: "Its place on the timeline" }, placeWords(run));
}

const COLUMNS = [
  { label: "When", cell: ({ at }) => whenShort(at) },
  { label: "From → to", class: "wrap", cell: ({ changes }) => changeWords(changes) || "the same values again" },
  { label: "During", cell: place },
  { label: "Version", num: true, cell: ({ version }) => (version === null ? "start" : int(version)) },
];

/** Fills #history once the records have what made `version` (of engine life `boot`), as far as that was a change. */
export async function drawHistory(boot, version, tries = TRIES) {
  const body = $("#history .body");
  try {
    const { items, truncated } = await get("/api/scheduler/changes");
    const [newest] = items;
    if (version > 1 && tries > 1 && !(newest && newest.boot === boot && newest.version === version))
      setTimeout(() => drawHistory(boot, version, tries - 1), RECORD_MS);
    const more = truncated && el("small", {}, `The newest ${int(items.length)} are shown.`);
    const none = el("p", { class: "empty" }, "Nothing was changed yet: every engine began with the same settings.");
    replace(body, items.length ? table(COLUMNS, items) : none, more);
  } catch (error) {
    replace(body, failure(error, () => drawHistory(boot, version)));
  }
}
