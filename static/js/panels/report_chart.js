// The timeline of a report: requests sent and answered a second, mean waiting and running. x: seconds since the run began.

import { setAttr } from "../dom.js";
import { int, sig3 } from "../format.js";
import { palette } from "../theme.js";
import { FONT } from "./canvas.js";
import { drawLegend } from "./legend.js";

const LINES = [
  ["sent", "sent a second", "prefill", "y"],
  ["done", "answered a second", "kv", "y"],
  ["failed", "not answered well a second", "r-engine_down", "y"],
  ["waiting", "waiting", "r-slots", "n"],
  ["running", "running", "running", "n"],
];

export function createReportChart(card) {
  const canvas = card.querySelector("canvas");
  const family = FONT.slice(FONT.indexOf(" ") + 1);
  const ticks = { font: { family, size: 11 }, maxTicksLimit: 6, precision: 0, callback: (value) => int(value) };
  const chart = new window.Chart(canvas, {
    type: "line",
    data: {
      datasets: LINES.map(([, label, , axis]) => ({
        label,
        yAxisID: axis,
        data: [],
        pointRadius: 0,
        borderWidth: 1.7,
        borderDash: axis === "n" ? [] : [4, 2],
      })),
    },
    options: {
      animation: false,
      responsive: true,
      maintainAspectRatio: false,
      parsing: false,
      normalized: true,
      spanGaps: true,
      interaction: { mode: "index", intersect: false, axis: "x" },
      scales: {
        x: {
          type: "linear",
          min: 0,
          grid: { display: false },
          ticks: { ...ticks, maxRotation: 0, callback: (value) => `${int(value)} s` },
        },
        y: {
          min: 0,
          suggestedMax: 2,
          border: { display: false },
          ticks,
          title: { display: true, text: "requests a second", font: { family, size: 11 } },
        },
        n: {
          min: 0,
          suggestedMax: 4,
          position: "right",
          border: { display: false },
          ticks,
          grid: { drawOnChartArea: false },
          title: { display: true, text: "requests", font: { family, size: 11 } },
        },
      },
      plugins: {
        legend: { display: false },
        tooltip: {
          animation: false,
          callbacks: {
            title: (items) => `second ${items.length ? items[0].raw.x : ""}`,
            label: (item) => `${item.dataset.label}: ${sig3(item.raw.y)}`,
          },
        },
      },
    },
  });
  return (timeline) => draw(card, canvas, chart, timeline);
}

function draw(card, canvas, chart, timeline) {
  const colours = palette();
  LINES.forEach(([name, , property], index) => {
    const dataset = chart.data.datasets[index];
    dataset.data = timeline.t.map((x, i) => ({ x, y: timeline[name][i] })).filter((point) => point.y !== null);
    dataset.borderColor = dataset.pointBackgroundColor = colours[property];
    dataset.hidden = !dataset.data.some((point) => point.y > 0);
  });
  const { x, y, n } = chart.options.scales;
  x.max = Math.max(1, timeline.t.length - 1);
  for (const axis of [x, y, n]) {
    axis.ticks.color = colours.mut;
    if (axis.title) axis.title.color = colours.mut;
  }
  y.grid = { color: colours.grid };
  Object.assign(chart.options.plugins.tooltip, {
    backgroundColor: colours["tip-bg"],
    titleColor: colours["tip-fg"],
    bodyColor: colours["tip-fg"],
  });
  chart.update("none");
  const shown = LINES.filter((_, index) => !chart.data.datasets[index].hidden);
  drawLegend(
    card.querySelector(".legend"),
    shown.map(([, label, property]) => [property, label, true]),
  );
  const most = Math.max(0, ...timeline.waiting.filter((value) => value !== null));
  setAttr(canvas, "aria-label", `Over ${int(timeline.t.length)} s: at most ${sig3(most)} waiting on average in a second`);
}
