// Load by wait reason over the last 600 steps: running, on top of it who waits, by reason (areas summed here, never stacked by
// Chart.js, whose stacks leak), the slots as the line of what can run at once, and KV blocks in use on the right axis.
// New arrays on every update; no animation; a linear axis of steps.

import { $, setAttr } from "../dom.js";
import { int } from "../format.js";
import { STEPS_KEPT } from "../store.js";
import { palette } from "../theme.js";
import { REASONS, SHORT } from "../words.js";
import { asTable } from "./as_table.js";
import { FONT, LEFT, RIGHT } from "./canvas.js";
import { drawLegend } from "./legend.js";
import { lastRows } from "./strip.js";

const COLUMNS = [
  { label: "Step", num: true, cell: (row) => int(row.step) },
  { label: "Waiting", num: true, cell: (row) => int(row.waiting) },
  { label: "Bound by", cell: (row) => SHORT[row.binding] },
  { label: "Running", num: true, cell: (row) => int(row.running) },
  { label: "KV blocks", num: true, cell: (row) => int(row.kv_used) },
];

export function createQueueChart(store) {
  const card = $("#queue");
  const canvas = $("canvas", card);
  const chart = new window.Chart(canvas, configuration());
  const drawTable = asTable(card, store, COLUMNS, lastRows);
  return { draw: (state) => draw(card, canvas, chart, state), drawTable };
}

function configuration() {
  const family = FONT.slice(FONT.indexOf(" ") + 1);
  const line = { pointRadius: 0, borderWidth: 1.6, data: [] };
  const running = { ...line, label: "running", fill: "origin", yAxisID: "y", colour: "decode" };
  const area = { ...line, borderWidth: 0, yAxisID: "y" };
  const areas = REASONS.map((reason) => ({ ...area, label: SHORT[reason], reason, colour: `r-${reason}` }));
  const slots = { ...line, label: "slots", borderDash: [5, 4], yAxisID: "y", colour: "fg" };
  const kv = { ...line, label: "KV blocks in use", yAxisID: "kv", colour: "kv" };
  return {
    type: "line",
    data: {
      datasets: [running, ...areas, slots, kv],
    },
    options: {
      animation: false,
      responsive: true,
      maintainAspectRatio: false,
      parsing: false,
      normalized: true,
      spanGaps: true,
      layout: { padding: { top: 6 } },
      interaction: { mode: "index", intersect: false, axis: "x" },
      font: { family, size: 11 },
      scales: {
        x: { type: "linear", grid: { display: false }, ticks: { display: false }, border: { display: true } },
        y: {
          min: 0,
          suggestedMax: 4,
          afterFit: (axis) => (axis.width = LEFT),
          border: { display: false },
          ticks: { maxTicksLimit: 5, precision: 0, callback: (value) => int(value), font: { family, size: 11 } },
        },
        kv: {
          position: "right",
          min: 0,
          max: 100,
          afterFit: (axis) => (axis.width = RIGHT),
          border: { display: false },
          grid: { drawOnChartArea: false },
          ticks: { stepSize: 50, callback: (value) => `${value}%`, font: { family, size: 11 } },
        },
      },
      plugins: {
        legend: { display: false },
        tooltip: {
          animation: false,
          filter: (item) => item.raw.v > 0 || item.dataset.reason === undefined,
          callbacks: {
            title: (items) => (items.length ? `step ${int(items[0].raw.x)}` : ""),
            label: (item) =>
              `${item.dataset.label} ${item.dataset.yAxisID === "kv" ? `${Math.round(item.raw.y)} %` : int(item.raw.v)}`,
          },
        },
      },
    },
  };
}

function draw(card, canvas, chart, state) {
  const steps = state.steps;
  const total = state.gauges ? state.gauges.blocks_total : null;
  const present = REASONS.filter((reason) => steps.by_reason[reason] && steps.by_reason[reason].some((count) => count > 0));
  fillAreas(chart, steps, present);
  const [slots, kv] = chart.data.datasets.slice(-2);
  const most = state.gauges ? state.gauges.max_num_seqs : null;
  slots.data = most === null || most === undefined ? [] : steps.step.map((x) => ({ x, y: most, v: most }));
  kv.data = total ? steps.step.map((x, i) => ({ x, y: (100 * steps.kv_used[i]) / total, v: steps.kv_used[i] })) : [];
  const newest = steps.step.at(-1) || 0;
  Object.assign(chart.options.scales.x, { min: newest - STEPS_KEPT + 0.5, max: newest + 0.5 });
  paint(chart);
  chart.update("none");
  drawLegend($(".legend", card), [
    ["decode", "running"],
    ...present.map((reason) => [`r-${reason}`, `waiting: ${SHORT[reason]}`]),
    ["fg", "slots", true],
    ["kv", "KV blocks", true],
  ]);
  const last = steps.seq.length - 1;
  setAttr(
    canvas,
    "aria-label",
    last < 0
      ? "Load: no step yet"
      : `Load: ${steps.waiting[last]} waiting, ${steps.running[last]} running, ${steps.kv_used[last]} of ${total} KV blocks in use`,
  );
}

function fillAreas(chart, steps, present) {
  const [running, ...areas] = chart.data.datasets.slice(0, REASONS.length + 1);
  const sum = [...steps.running];
  running.data = steps.step.map((x, i) => ({ x, y: sum[i], v: sum[i] }));
  let below = 0;
  areas.forEach((dataset, index) => {
    const column = steps.by_reason[dataset.reason];
    dataset.hidden = !present.includes(dataset.reason);
    if (dataset.hidden) {
      dataset.data = [];
      return;
    }
    dataset.data = steps.step.map((x, i) => ({ x, y: (sum[i] += column[i]), v: column[i] }));
    dataset.fill = below;
    below = index + 1;
  });
}

function paint(chart) {
  const colours = palette();
  for (const dataset of chart.data.datasets) {
    const colour = colours[dataset.colour];
    dataset.borderColor = dataset.colour === "decode" ? colours["decode-edge"] : colour;
    dataset.backgroundColor = `${colour}8c`;
    dataset.pointBackgroundColor = colour;
  }
  const { x, y, kv } = chart.options.scales;
  x.border.color = colours.grid;
  y.grid = { color: colours.grid };
  for (const axis of [y, kv]) axis.ticks.color = colours.mut;
  const tooltip = chart.options.plugins.tooltip;
  Object.assign(tooltip, { backgroundColor: colours["tip-bg"], titleColor: colours["tip-fg"], bodyColor: colours["tip-fg"] });
}
