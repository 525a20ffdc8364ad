// The wait ledger: what a request waited for, how long, and who held it meanwhile. A request's JSON in, nodes out.

import { el, swatch, table } from "../dom.js";
import { blockersWords, booked, byReason, merged, sharesWords } from "../blocked.js";
import { int, ms, percents, plural } from "../format.js";
import { SHORT } from "../words.js";

const ROWS = 100;

/** Where it stands in the queue and by how many it was overtaken: one line above the card's table. */
export function placeWords(request) {
  const parts = [];
  const place = request.queue;
  if (place) {
    const start = place.estimated_start_ms === null ? "" : `, starts in about ${ms(place.estimated_start_ms)}`;
    const kind = place.exact ? "" : " by arrival; the policy may let others pass";
    parts.push(`number ${int(place.position)} in the queue${kind}${start}`);
  }
  if (request.overtaken !== null && request.overtaken !== undefined)
    parts.push(
      request.overtaken
        ? `overtaken by ${int(request.overtaken)} that arrived later`
        : "overtaken by nobody that arrived later",
    );
  return parts.join(" · ");
}

/** The sums by reason with their holders, and stretch by stretch behind a disclosure. `until`: now, ms since received. */
export function waitLedger(request, until) {
  const stretches = request.waited;
  if (stretches.length === 0) return [el("p", { class: "empty" }, noWait(request))];
  const sums = booked(byReason(stretches, until), request.waits);
  const whole = sums.reduce((sum, one) => sum + one.ms, 0);
  const said = percents(sums.map((one) => (whole ? one.ms / whole : null)));
  const rows = sums.flatMap((one, index) => [
    swatch(`r-${one.reason}`),
    el("span", {}, SHORT[one.reason], el("small", {}, sharesWords(one.shares) && ` — ${sharesWords(one.shares)}`)),
    el("span", { class: "num" }, ms(one.ms)),
    el("span", { class: "num mut" }, `${said[index]} %`),
  ]);
  return [el("div", { class: "ledger" }, ...rows), details(request, until)];
}

function noWait(request) {
  if (request.finish === "rejected") return "It was refused at the door and never waited.";
  if (request.events.length === 0) return "It has not reached the queue yet.";
  return "It never waited: the step that planned after it came took it in.";
}

function details(request, until) {
  const rows = merged(request.waited, until);
  const shown = rows.slice(0, ROWS);
  const some = rows.some((row) => row.sequence !== rows[0].sequence);
  const columns = [
    { label: "From", num: true, cell: (row) => ms(row.from_ms) },
    { label: "For", num: true, cell: (row) => (row.open ? `${ms(row.to_ms - row.from_ms)} so far` : ms(row.to_ms - row.from_ms)) },
    { label: "Waited for", cell: (row) => el("span", { class: "reason" }, swatch(`r-${row.reason}`), SHORT[row.reason]) },
    { label: "Who held it", class: "wrap", cell: (row) => heldText(row, request.number) },
  ];
  if (some) columns.unshift({ label: "Sequence", cell: (row) => `/${row.sequence.split("/")[1] || 0}` });
  const count = `${rows.length > ROWS ? `the first ${int(ROWS)} of ` : ""}${plural(rows.length, "stretch", "stretches")}`;
  const wide = el("div", { class: "scroll astable" }, table(columns, shown));
  return el("details", { class: "stretches", open: rows.length <= 12 }, el("summary", {}, `Stretch by stretch: ${count}`), wide);
}

function heldText(row, number) {
  const words = blockersWords(row.longest, number);
  if (!words) return row.reason === "step" ? "nobody: a step was running" : "";
  if (row.sets < 2) return words;
  const title = "who held it changed in this stretch; shown are those who held it longest";
  return el("span", { title }, `${words} (longest of ${int(row.sets)})`);
}
