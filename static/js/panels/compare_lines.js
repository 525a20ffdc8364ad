// Lines of a comparison, one a side: distributions, and courses from t = 0. Own legend, dash and marker a side; no stacking.

import { $, el, replace, setAttr, table } from "../dom.js";
import { int, ms, NONE, percent, sig3 } from "../format.js";
import { palette } from "../theme.js";
import { createChart } from "./chart.js";
import { LETTERS, LINES, sideName } from "./sides.js";

const CDFS = [
  ["ttft_ms", "TTFT"],
  ["tpot_ms", "TPOT"],
  ["itl_ms", "ITL"],
  ["e2e_ms", "E2E"],
];
const COURSES = [
  ["waiting", "Waiting", "requests"],
  ["running", "Running", "requests"],
  ["decode_tok_s", "Decoded", "tok/s"],
];
const BODY = 0.99; // of a distribution, where its last hundredth is left out
const MARKS = 6; // markers on a line
const tick = (value) => (Number.isInteger(value) ? int(value) : String(Number(value.toPrecision(3))));

/** A plot within `node`: draw({ lines: [{ points, index }], xMax, yMax, marks, label, stepped, and the words of ticks and values }). */
function createPlot(node, title, unit) {
  const canvas = el("canvas", { role: "img", "aria-label": title });
  replace(node, el("h3", {}, title, " ", el("small", {}, unit)), el("div", { class: "plot" }, canvas));
  const chart = createChart(canvas, {
    interaction: { mode: "nearest" },
    layout: { padding: { right: 10 } },
    scales: {
      x: { type: "linear", min: 0, grid: { display: false }, ticks: { maxRotation: 0, maxTicksLimit: 8, autoSkip: false } },
      y: { min: 0, border: { display: false }, ticks: { maxTicksLimit: 5 } },
    },
    plugins: { tooltip: { filter: ({ dataset }) => dataset.label !== "" } },
  });
  return (what) => {
    chart.draw((drawn) => show(drawn, what));
    setAttr(canvas, "aria-label", what.label);
  };
}

function show({ data, options }, { lines, xMax, yMax, marks, xTick, yTick, xText, yText, stepped }) {
  data.datasets = [...lines.map((line) => dataset(line, lines.length, stepped)), ...marks.map((at) => markSet(at, yMax))];
  const { x, y } = options.scales;
  [x.max, y.max] = [xMax, yMax];
  x.ticks.callback = (value) => (value === xMax ? "" : xTick(value)); // the last one is no round number
  y.ticks.callback = (value) => (value === yMax && yMax !== 1 ? "" : yTick(value));
  options.plugins.tooltip.callbacks = {
    title: () => "",
    label: ({ raw, dataset: { label: letter } }) => `${letter}: ${xText(raw.x)}, ${yText(raw.y)}`,
  };
}

function dataset({ points, index }, count, stepped) {
  const { property, dash, mark } = LINES[index];
  const colour = palette()[property];
  const every = Math.max(1, Math.floor(points.length / MARKS));
  const first = Math.floor((every * (index + 1)) / (count + 1)); // no two sides mark the same place
  return {
    label: LETTERS[index],
    data: points,
    borderColor: colour,
    backgroundColor: colour,
    borderDash: dash,
    borderWidth: 1.8,
    stepped: stepped ? "before" : false,
    pointStyle: mark,
    pointBorderColor: colour,
    pointRadius: ({ dataIndex }) => (dataIndex % every === first ? 4 : 0),
    clip: 5, // a line along the edge is not cut in half
  };
}

const markSet = (x, top) => ({
  label: "",
  data: [
    { x, y: 0 },
    { x, y: top },
  ],
  borderColor: palette().fg,
  borderWidth: 1,
  borderDash: [1, 3],
  pointHitRadius: 0,
});

function legend(card, sides) {
  replace($(".legend", card), ...sides.map((_, index) => sideName(sides, index)));
}

// ---- distributions

/** draw(answer, tail): `tail` shows the last hundredth too. */
export function createCdfs(card) {
  const plots = CDFS.map(([, title]) => {
    const node = el("div", { class: "small-plot" });
    $(".plots", card).append(node);
    return createPlot(node, title, "ms: share of values no larger");
  });
  return ({ runs }, tail) => {
    legend(card, runs);
    CDFS.forEach(([name, title], place) => plots[place](cdfOf(runs, name, title, tail)));
    replace($(".astable", card), cdfTable(runs));
  };
}

function cdfOf(runs, name, title, tail) {
  const lines = runs.map((side, index) => {
    const { ms: values, share } = side.cdfs[name];
    const points = values.map((x, i) => ({ x, y: share[i] }));
    return { index, points: points.length ? [{ x: points[0].x, y: 0 }, ...points] : [] };
  });
  const ends = runs.map((side) => at(side.cdfs[name], tail ? 1 : BODY) || 0);
  const said = runs.map(
    (side, index) => `${LETTERS[index]} median ${ms(at(side.cdfs[name], 0.5))}, n ${int(side.cdfs[name].n)}`,
  );
  const xMax = Math.max(...ends) || 1;
  return {
    lines,
    xMax,
    yMax: 1,
    marks: [],
    stepped: true,
    label: `${title}: ${said.join("; ")}`,
    xTick: (value) => (xMax >= 10_000 ? `${tick(value / 1000)} s` : tick(value)),
    yTick: (value) => `${percent(value)} %`,
    xText: ms,
    yText: (value) => `${percent(value)} %`,
  };
}

/** The value that `share` of all do not exceed. */
function at({ ms: values, share }, wanted) {
  const place = share.findIndex((each) => each >= wanted);
  return place < 0 ? null : values[place];
}

function cdfTable(runs) {
  const shares = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1];
  const rows = CDFS.flatMap(([name, title]) => runs.map((side, index) => ({ title, index, cdf: side.cdfs[name] })));
  return table(
    [
      { label: "", cell: (row) => row.title },
      { label: "", cell: (row) => sideName(runs, row.index) },
      ...shares.map((share) => ({
        label: `${percent(share)} %`,
        num: true,
        cell: ({ cdf }) => (cdf.n ? sig3(at(cdf, share)) : NONE),
      })),
      { label: "n", num: true, cell: ({ cdf }) => int(cdf.n) },
      { label: "seen by", cell: ({ cdf }) => cdf.of },
    ],
    rows,
  );
}

// ---- courses

/** draw(answer): waiting, running and tokens of each side over the seconds since its own beginning. */
export function createCourses(card) {
  const plots = COURSES.map(([, title, unit]) => {
    const node = el("div", { class: "small-plot" });
    $(".plots", card).append(node);
    return createPlot(node, title, unit);
  });
  return ({ runs, split }) => {
    legend(card, runs);
    const marks = split ? [split.at_s] : runs.flatMap((side) => side.changes.map((change) => change.at_s));
    const xMax = Math.max(1, ...runs.map(({ series }) => (series.t_s.length ? series.t_s.at(-1) + series.bin_s : 0)));
    COURSES.forEach(([name, title, unit], place) => plots[place](courseOf(runs, name, title, unit, marks, xMax)));
    replace($(".astable", card), courseTable(runs));
  };
}

function courseOf(runs, name, title, unit, marks, xMax) {
  const lines = runs.map(({ series }, index) => ({
    index,
    points: series.t_s.map((t, i) => ({ x: t + series.bin_s / 2, y: series[name][i] })),
  }));
  const most = lines.map(({ points }) => Math.max(0, ...points.map((point) => point.y || 0)));
  const said = most.map((value, index) => `${LETTERS[index]} at most ${sig3(value)} ${unit}`);
  return {
    lines,
    xMax,
    yMax: Math.max(1, ...most) * 1.08,
    marks,
    stepped: false,
    label: `${title} over ${sig3(xMax)} s: ${said.join("; ")}`,
    xTick: (value) => `${tick(value)} s`,
    yTick: tick,
    xText: (value) => `${sig3(value)} s`,
    yText: (value) => `${sig3(value)} ${unit}`,
  };
}

/** Means over twelfths of each course. */
function courseTable(runs) {
  const parts = 12;
  const rows = runs.flatMap(({ series }, index) =>
    Array.from({ length: parts }, (_, part) => {
      const [from, to] = [part, part + 1].map((each) => Math.floor((each * series.t_s.length) / parts));
      return { index, series, from, to };
    }).filter(({ from, to }) => to > from),
  );
  const mean = (values) => {
    const known = values.filter((value) => value !== null);
    return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
  };
  const columns = COURSES.map(([name, title, unit]) => ({
    label: `${title}, ${unit}`,
    num: true,
    cell: ({ series, from, to }) => sig3(mean(series[name].slice(from, to))),
  }));
  return table(
    [
      { label: "", cell: (row) => sideName(runs, row.index) },
      { label: "From", num: true, cell: ({ series, from }) => `${sig3(series.t_s[from])} s` },
      ...columns,
    ],
    rows,
  );
}
