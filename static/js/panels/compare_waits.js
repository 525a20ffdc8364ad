// Waiting by reason side by side: a stacked bar a run, as long as the run waited, and the same as a table. Pure.

import { el, swatch } from "../dom.js";
import { ms, NONE, percents } from "../format.js";
import { REASONS, SHORT } from "../words.js";
import { listOf, sideName } from "./sides.js";

const ink = (reason) => (REASONS.includes(reason) ? `r-${reason}` : "mut");

export function compareWaits({ runs, waits }) {
  if (waits.length === 0) return [el("p", { class: "empty" }, "Nobody waited in any of them.")];
  const whole = runs.map((_, index) => waits.reduce((sum, row) => sum + row.values[index], 0));
  return [bars(runs, waits, whole), tableOf(runs, waits, whole)];
}

function bars(sides, waits, whole) {
  const most = Math.max(...whole);
  const nodes = sides.flatMap((side, index) => {
    const pieces = waits.filter((row) => row.values[index] > 0).map((row) => piece(row, index, most, sharesOf(waits, index)[waits.indexOf(row)]));
    const shares = sharesOf(waits, index);
    const said = waits.map((row, each) => `${SHORT[row.name] || row.name} ${shares[each]} %`).join(", ");
    return [
      sideName(sides, index),
      el("div", { class: "track", role: "img", "aria-label": `${ms(whole[index])} in all: ${said}` }, ...pieces),
      el("span", { class: "figure" }, ms(whole[index])),
    ];
  });
  return el("div", { class: "hbars waitbars" }, ...nodes);
}

/** By reason, of one side's waiting; they add up to 100. */
const sharesOf = (waits, index) => percents(waits.map((row) => row.shares[index]));

function piece(row, index, most, share) {
  const title = `${SHORT[row.name] || row.name}: ${ms(row.values[index])}, ${share} %`;
  const node = el("i", { title });
  node.style.setProperty("width", `${(100 * row.values[index]) / most}%`);
  node.style.setProperty("background", `var(--${ink(row.name)})`);
  return node;
}

function tableOf(sides, waits, whole) {
  const shares = sides.map((_, index) => sharesOf(waits, index));
  const cell = (side, row, index) => {
    const text = row.values[index] ? `${ms(row.values[index])} · ${shares[index][waits.indexOf(row)]} %` : NONE;
    const href = row.values[index] ? listOf(side, { wait: row.name, sort: "-queue_ms" }) : null;
    return el("td", { class: "num" }, href ? el("a", { href }, text) : text);
  };
  const rows = waits.map((row) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, el("span", { class: "reason" }, swatch(ink(row.name)), SHORT[row.name] || row.name)),
      ...sides.map((side, index) => cell(side, row, index)),
    ),
  );
  const total = el(
    "tr",
    {},
    el("th", { scope: "row" }, "in all"),
    ...whole.map((value) => el("td", { class: "num" }, ms(value))),
  );
  const heads = sides.map((_, index) => el("th", { class: "num", scope: "col" }, sideName(sides, index)));
  return el(
    "div",
    { class: "scroll" },
    el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, "Reason"), ...heads)), el("tbody", {}, ...rows, total)),
  );
}
