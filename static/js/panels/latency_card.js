// Latency over the last 30 s: p50, p95 and p99 of TTFT and ITL as bars, the bound that the settings name as a dashed line.
// Bars and no course: what a page would collect itself, a reload would lose.

import { $, el, setAttr, setHidden, setStyle, setText } from "../dom.js";
import { int, ms } from "../format.js";

const MEASURES = [
  { name: "ttft", title: "TTFT", of: "first tokens", setting: "ttft_slo_ms" },
  { name: "itl", title: "ITL", of: "gaps between tokens", setting: "itl_target_ms" },
];
const SHARES = [50, 95, 99];
const FAR = 3; // a bound so many times beyond p99 is not drawn: nothing else would be seen

export function createLatency() {
  const parts = MEASURES.map(createMeasure);
  $("#latency .pair").append(...parts.map(({ node }) => node));
  return (state) => {
    if (state.gauges === null) return;
    const settings = (state.server && state.server.settings) || {};
    MEASURES.forEach((measure, index) => draw(parts[index], measure, state.gauges, settings[measure.setting] || null));
  };
}

function createMeasure({ title }) {
  const rows = SHARES.map((share) => {
    const [bar, bound, value] = [el("i"), el("b", { hidden: true }), el("span", { class: "num" })];
    return { bar, bound, value, nodes: [el("span", {}, `p${share}`), el("div", { class: "track" }, bar, bound), value] };
  });
  const note = el("small");
  const bars = el("div", { class: "percentiles", role: "group", "aria-label": title }, ...rows.flatMap(({ nodes }) => nodes));
  return { rows, note, node: el("div", {}, el("h3", {}, title, " ", note), bars) };
}

/** Where the scale ends, and whether the bound is on it. */
export function scaleOf(p99, bound) {
  const drawn = bound !== null && bound <= FAR * (p99 || 0);
  return [Math.max(p99 || 0, drawn ? bound : 0) * 1.05 || 1, drawn];
}

function draw({ rows, note }, { name, of, setting }, gauges, bound) {
  const n = gauges[`${name}_n`];
  const [top, drawn] = scaleOf(gauges[`${name}_p99_ms`], bound);
  const where = bound === null ? "" : ` · ${drawn ? "dashed: " : ""}${setting} ${ms(bound)}${drawn ? "" : ", beyond the scale"}`;
  setText(note, `${int(n)} ${of}${where}`);
  rows.forEach(({ bar, bound: line, value }, index) => {
    const share = SHARES[index];
    const found = gauges[`${name}_p${share}_ms`];
    const few = n > 0 && n * (100 - share) < 100;
    setStyle(bar, "width", `${(100 * (found || 0)) / top}%`);
    setHidden(line, !drawn);
    if (drawn) setStyle(line, "left", `${(100 * bound) / top}%`);
    setText(value, `${ms(found)}${bound !== null && found > bound ? " over" : ""}`);
    setAttr(value, "class", few ? "num mut" : "num");
    setAttr(value, "title", few ? `few samples: fewer than one is expected beyond p${share}` : null);
  });
}
