// Load by wait reason over the last 600 steps: running, on top of it who waits, by reason (areas summed here, never stacked by
// Chart.js, whose stacks leak), the slots of each step as the line of what could run at once, and KV blocks in use on the right axis.
// New arrays on every update. It shares its edges with the strip above, and a step has the same place on both.

import { $, drawLegend, setAttr } from "../dom.js";
import { int, plural } from "../format.js";
import { STEPS_KEPT } from "../store.js";
import { palette } from "../theme.js";
import { REASONS, SHORT } from "../words.js";
import { asTable } from "./as_table.js";
import { FONT, LEFT, RIGHT } from "./canvas.js";
import { createChart } from "./chart.js";
import { fillAreas, points } from "./load_areas.js";
import { drawMarks, lastRows, MARKED, shareSteps } from "./strip.js";

const COLUMNS = [
  { label: "Step", num: true, cell: (row) => int(row.step) },
  { label: "Waiting", num: true, cell: (row) => int(row.waiting) },
  { label: "Bound by", cell: (row) => SHORT[row.binding] },
  { label: "Running", num: true, cell: (row) => int(row.running) },
  { label: "KV blocks", num: true, cell: (row) => int(row.kv_used) },
  MARKED,
];
const LINE = { borderWidth: 1.6, data: [] };

export function createQueueChart(store) {
  const card = $("#queue");
  const canvas = $("canvas", card);
  const sets = datasets();
  const chart = createChart(canvas, OPTIONS, [{ afterDatasetsDraw: (drawn) => mark(drawn, store.state) }]);
  shareSteps(canvas, store);
  return { draw: (state) => draw(card, chart, sets, state), drawTable: asTable(card, store, COLUMNS, lastRows) };
}

/** Those of Chart.js, made once: running, a reason each, slots, KV; `colour` names a property of the style sheet. */
function datasets() {
  const running = { ...LINE, label: "running", fill: "origin", colour: "decode" };
  const area = { ...LINE, borderWidth: 0 };
  const areas = REASONS.map((reason) => ({ ...area, label: `waiting: ${SHORT[reason]}`, reason, colour: `r-${reason}` }));
  const above = { ...LINE, order: -1 };
  const slots = { ...above, label: "slots", borderDash: [5, 4], stepped: "middle", colour: "fg" };
  return [running, ...areas, slots, { ...above, label: "KV blocks in use", yAxisID: "kv", colour: "kv" }];
}

const OPTIONS = {
  layout: { padding: { top: 6 } },
  scales: {
    x: { type: "linear", min: 0, max: STEPS_KEPT, grid: { display: false }, ticks: { display: false } },
    y: {
      min: 0,
      suggestedMax: 4,
      afterFit: (axis) => (axis.width = LEFT),
      border: { display: false },
      ticks: { maxTicksLimit: 5, precision: 0, callback: int },
    },
    kv: {
      position: "right",
      min: 0,
      max: 100,
      afterFit: (axis) => (axis.width = RIGHT),
      border: { display: false },
      grid: { drawOnChartArea: false },
      ticks: { stepSize: 50, callback: (value) => `${value}%` },
    },
  },
  plugins: {
    tooltip: {
      itemSort: (a, b) => a.datasetIndex - b.datasetIndex,
      filter: ({ raw, dataset }) => raw.v > 0 || dataset.reason === undefined,
      callbacks: {
        title: (items) => (items.length ? `step ${int(items[0].raw.step)}` : ""),
        label: ({ raw, dataset }) =>
          `${dataset.label} ${dataset.yAxisID === "kv" ? `${Math.round(raw.y)} %, ${int(raw.v)}` : int(raw.v)}`,
      },
    },
  },
};

function draw(card, chart, sets, state) {
  const { steps, gauges } = state;
  const total = gauges && gauges.blocks_total;
  const present = REASONS.filter((reason) => steps.by_reason[reason] && steps.by_reason[reason].some((count) => count > 0));
  chart.draw(({ data }) => {
    data.datasets = sets;
    fillAreas(sets, steps, present);
    const kv = sets.at(-1);
    kv.data = total ? points(steps, steps.kv_used.map((used) => (100 * used) / total), steps.kv_used) : [];
    paint(sets);
  });
  drawLegend($(".legend", card), [
    ["decode", "running"],
    ...present.map((reason) => [`r-${reason}`, `waiting: ${SHORT[reason]}`]),
    ["fg", "slots", true],
    ["kv", "KV blocks", true],
  ]);
  setAttr($("canvas", card), "aria-label", label(steps, total));
}

/** What changed, where it did, as on the strip above. */
function mark({ ctx, width, chartArea }, state) {
  ctx.font = FONT;
  drawMarks(ctx, state, width, chartArea.top, chartArea.bottom);
}

function paint(sets) {
  const colours = palette();
  for (const dataset of sets) {
    const colour = colours[dataset.colour];
    dataset.borderColor = dataset.colour === "decode" ? colours["decode-edge"] : colour;
    dataset.backgroundColor = `${colour}8c`;
    dataset.pointBackgroundColor = colour;
  }
}

function label(steps, total) {
  const last = steps.seq.length - 1;
  if (last < 0) return "Load: no step yet";
  return `Load: ${int(steps.waiting[last])} waiting, ${int(steps.running[last])} running, ${int(steps.kv_used[last])} of ${plural(total || 0, "KV block")} in use`;
}
