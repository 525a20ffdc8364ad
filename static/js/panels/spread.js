// How a measure is spread over the filtered set: bars as the server counted them, percentiles as lines, a brush that filters.

import { $, el, replace, setAttr, setHidden, setText, table } from "../dom.js";
import { int, ms, sig3 } from "../format.js";
import { palette } from "../theme.js";
import { wireTable } from "./as_table.js";
import { drawMarkers, fit, hover } from "./canvas.js";

const EDGE = 10;
const RIGHT = 34; // room for the name of a percentile
const FOOT = 18;
const HEAD = 16;
const NAMES = ["p50", "p90", "p95", "p99"];

export const valueText = (value, unit) => (unit === "ms" ? ms(value) : sig3(value));

/** Between values and pixels, by the histogram's own scale. */
function axis({ edges, scale }, width) {
  const [low, high] = [edges[0], edges.at(-1)];
  const span = width - EDGE - RIGHT;
  const log = scale === "log";
  const share = (value) => (high === low ? 0.5 : log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
  return {
    x: (value) => EDGE + span * Math.max(0, Math.min(1, share(value))),
    value: (x) => {
      const part = Math.max(0, Math.min(1, (x - EDGE) / span));
      return log ? low * (high / low) ** part : low + (high - low) * part;
    },
  };
}

function ticks({ edges, scale }) {
  const [low, high] = [edges[0], edges.at(-1)];
  const found = [];
  if (scale === "log") {
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1)
      for (const factor of [1, 2, 5]) found.push(factor * 10 ** power);
    return found.filter((value) => value >= low && value <= high);
  }
  const step = 10 ** Math.floor(Math.log10((high - low || 1) / 3));
  for (let value = Math.ceil(low / step) * step; value <= high && found.length < 40; value += step) found.push(value);
  return found;
}

export function createSpread(card, onBrush) {
  const canvas = $("canvas", card);
  const box = $(".astable", card);
  let data = null;
  let brush = null; // [x, x] in pixels, while the pointer is down

  function draw() {
    if (!data || !data.histogram || data.histogram.counts.length === 0) return;
    const [context, width, height] = fit(canvas);
    const { edges, counts } = data.histogram;
    const colours = palette();
    const place = axis(data.histogram, width);
    const bottom = height - FOOT;
    const top = Math.max(...counts);
    const middle = place.x(edges[0]);
    context.fillStyle = colours.prefill;
    counts.forEach((count, index) => {
      const left = counts.length === 1 ? middle - 6 : Math.round(place.x(edges[index]));
      const right = counts.length === 1 ? middle + 6 : Math.round(place.x(edges[index + 1]));
      const tall = count ? Math.max(2, Math.round((count / top) * (bottom - HEAD))) : 0;
      context.fillRect(left, bottom - tall, Math.max(1, right - left - 1), tall);
    });
    context.fillStyle = colours.line;
    context.fillRect(EDGE, bottom, width - EDGE - RIGHT, 1);
    drawTicks(context, place, bottom, width, colours);
    const { percentiles } = data;
    drawMarkers(context, ["p50", "p95", "p99"].map((name) => ({ x: place.x(percentiles[name]), text: name })), 0, bottom);
    if (!brush) return;
    context.globalAlpha = 0.25;
    context.fillStyle = colours.acc;
    context.fillRect(Math.min(...brush), 0, Math.abs(brush[1] - brush[0]), bottom);
    context.globalAlpha = 1;
  }

  function drawTicks(context, place, bottom, width, colours) {
    context.fillStyle = colours.mut;
    context.textAlign = "center";
    let free = 0;
    for (const value of ticks(data.histogram)) {
      const text = valueText(value, data.unit);
      const half = context.measureText(text).width / 2;
      const x = place.x(value);
      if (x - half < free || x + half > width) continue;
      context.fillRect(Math.round(x), bottom, 1, 4);
      context.fillText(text, x, bottom + 15);
      free = x + half + 12;
    }
  }

  function told(x) {
    if (!data || !data.histogram || data.histogram.counts.length === 0 || brush) return null;
    const { edges, counts } = data.histogram;
    const value = axis(data.histogram, canvas.clientWidth).value(x);
    const index = Math.max(0, Math.min(counts.length - 1, edges.findLastIndex((edge) => edge <= value)));
    return `${valueText(edges[index], data.unit)} to ${valueText(edges[Math.min(index + 1, edges.length - 1)], data.unit)}\n${int(counts[index])} requests`;
  }

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !data || !data.histogram) return;
    brush = [event.offsetX, event.offsetX];
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!brush) return;
    brush[1] = event.offsetX;
    draw();
  });
  canvas.addEventListener("pointerup", () => {
    const [from, to] = brush ? [...brush].sort((a, b) => a - b) : [0, 0];
    brush = null;
    if (to - from > 3) {
      const place = axis(data.histogram, canvas.clientWidth);
      onBrush(data.measure, place.value(from), place.value(to));
    } else draw();
  });
  canvas.addEventListener("pointercancel", () => {
    brush = null;
    draw();
  });
  hover(canvas, told);

  const button = $("[data-as-table]", card);
  wireTable(card);

  function show(next, words) {
    data = next;
    const some = Boolean(data && data.histogram && data.histogram.counts.length);
    setHidden($(".plot", card), !some);
    setHidden($("#band"), !some);
    setHidden(button, !some);
    setHidden($("#nospread"), some);
    replace($("#percentiles"), ...(data && data.percentiles && data.percentiles.n ? figures(data) : []));
    if (!some) {
      setText($("#nospread"), data && data.timed_out ? "Too many to compute in 2 s: narrow the search, or pick a run." : words);
      return;
    }
    const { histogram, percentiles, unit } = data;
    setText($("#bandunit"), unit || "");
    const bars = histogram.counts.map((count, index) => ({ from: histogram.edges[index], to: histogram.edges[index + 1] ?? histogram.edges[index], count }));
    replace(
      box,
      table(
        [
          { label: "From", num: true, cell: (bar) => valueText(bar.from, unit) },
          { label: "To", num: true, cell: (bar) => valueText(bar.to, unit) },
          { label: "Requests", num: true, cell: (bar) => int(bar.count) },
        ],
        bars.filter((bar) => bar.count),
      ),
    );
    setAttr(canvas, "aria-label", `Histogram of ${int(percentiles.n)} requests: ${NAMES.map((name) => `${name} ${valueText(percentiles[name], unit)}`).join(", ")}`);
    draw();
  }
  return { show, draw };
}

function figures({ percentiles, unit, undefined: none }) {
  const parts = NAMES.map((name) => {
    const few = percentiles.few.includes(name);
    return el("span", { class: few && "few", title: few && "fewer than one request is expected beyond it" }, `${name} `, el("b", {}, valueText(percentiles[name], unit)), few && " few");
  });
  return [...parts, el("small", {}, `n ${int(percentiles.n)}${none ? `, ${int(none)} without` : ""}`)];
}
