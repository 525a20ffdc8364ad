// The timeline of a report: requests sent and answered a second, mean waiting and running, and where the load was changed by hand.
// x: seconds since the run began.

import { $, drawLegend, setAttr } from "../dom.js";
import { int, sig3 } from "../format.js";
import { palette } from "../theme.js";
import { asTable, ROWS } from "./as_table.js";
import { drawMarkers } from "./canvas.js";
import { createChart } from "./chart.js";

const LINES = [
  ["sent", "sent a second", "prefill", "y"],
  ["done", "answered a second", "kv", "y"],
  ["failed", "not answered well a second", "r-engine_down", "y"],
  ["waiting", "waiting", "r-slots", "n"],
  ["running", "running", "running", "n"],
];
const TICKS = { maxTicksLimit: 6, precision: 0, callback: int };
const axis = (least, text) => ({
  min: 0,
  suggestedMax: least,
  border: { display: false },
  ticks: TICKS,
  title: { display: true, text },
});
const OPTIONS = {
  spanGaps: true,
  scales: {
    x: {
      type: "linear",
      min: 0,
      grid: { display: false },
      ticks: { ...TICKS, maxRotation: 0, callback: (value) => `${int(value)} s` },
    },
    y: axis(2, "requests a second"),
    n: { ...axis(4, "requests"), position: "right", grid: { drawOnChartArea: false } },
  },
  plugins: {
    tooltip: {
      callbacks: {
        title: (items) => `second ${items.length ? int(items[0].raw.x) : ""}`,
        label: ({ raw, dataset }) => `${dataset.label}: ${sig3(raw.y)}`,
      },
    },
  },
};

const TABLE = [
  { label: "Second", num: true, cell: ([t]) => int(t) },
  ...LINES.map(([, label], i) => ({ label, num: true, cell: (row) => sig3(row[i + 1]) })),
];
const rows = (timeline) =>
  timeline.t.map((t, i) => [t, ...LINES.map(([name]) => timeline[name][i])]).slice(-ROWS).reverse();

/** Returns draw(timeline, changes of the rate). */
export function createReportChart(card) {
  const shown = { state: null, changes: [] };
  const marks = { id: "rate", afterDraw: (chart) => mark(chart, shown.changes) };
  const chart = createChart($("canvas", card), OPTIONS, [marks]);
  const drawTable = asTable(card, shown, TABLE, rows);
  return (timeline, changes = []) => {
    Object.assign(shown, { state: timeline, changes });
    draw(card, chart, timeline);
    drawTable(timeline);
  };
}

function mark({ ctx, scales, chartArea }, changes) {
  const text = ({ factor }) => `rate × ${factor}`;
  const marks = changes.map((each) => ({ x: scales.x.getPixelForValue(each.at_s), text: text(each) }));
  drawMarkers(ctx, marks, chartArea.top, chartArea.bottom, chartArea.left);
}

function draw(card, chart, timeline) {
  const shown = LINES.filter(([name]) => timeline[name].some((value) => value > 0));
  chart.draw(({ data, options }) => {
    data.datasets = shown.map((line) => dataset(line, timeline));
    options.scales.x.max = Math.max(1, timeline.t.length - 1);
  });
  drawLegend(
    $(".legend", card),
    shown.map(([, label, property]) => [property, label, true]),
  );
  const waited = Math.max(0, ...timeline.waiting.filter((value) => value !== null));
  setAttr(
    $("canvas", card),
    "aria-label",
    `Over ${int(timeline.t.length)} s: at most ${sig3(waited)} waiting on average in a second`,
  );
}

function dataset([name, label, property, yAxisID], timeline) {
  const colour = palette()[property];
  return {
    label,
    yAxisID,
    data: timeline.t.map((x, i) => ({ x, y: timeline[name][i] })).filter(({ y }) => y !== null),
    borderColor: colour,
    backgroundColor: colour,
    borderWidth: 1.7,
    borderDash: yAxisID === "n" ? [] : [4, 2],
  };
}
