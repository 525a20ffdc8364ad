// Gaps between a request's tokens: a bar each (the longest of each bin above 1,000), the median and p95 as lines, and the five
// longest with what their step did beside it.

import { $, el, replace, setAttr, setHidden, setText, table } from "../dom.js";
import { int, ms, NONE, plural, requestUrl, shortId, sig3 } from "../format.js";
import { palette } from "../theme.js";
import { asTable, ROWS } from "./as_table.js";
import { fit, hover, LEFT } from "./canvas.js";
import { binned } from "./gap_bins.js";

const TOP = 8;
const BOTTOM = 18;
const TABLE = [
  { label: "Token", num: true, cell: (bar) => int(bar.token) },
  { label: "After, ms", num: true, cell: (bar) => sig3(bar.ms) },
  { label: "Step", num: true, cell: (bar) => int(bar.step) },
  { label: "At, ms", num: true, cell: (bar) => sig3(bar.t_ms) },
];

export function createTokenGaps(onStep) {
  const card = $("#gaps");
  const canvas = $("canvas", card);
  let bars = [];
  let last = null;
  hover(canvas, (x) => {
    const bar = bars[Math.floor(((x - LEFT) * bars.length) / Math.max(1, canvas.clientWidth - LEFT))];
    if (x < LEFT || !bar) return null;
    return `token ${int(bar.token)} · ${ms(bar.ms)} after the one before\nstep ${int(bar.step)} · at ${ms(bar.t_ms)}`;
  });
  const shown = { state: [] };
  const drawTable = asTable(card, shown, TABLE, (all) => all.slice(-ROWS).reverse());
  const draw = (request) => {
    last = request;
    const gaps = request.gaps;
    const found = binned(gaps);
    bars = shown.state = found.bars;
    drawTable(bars);
    setHidden($(".plot", card), bars.length === 0);
    setHidden($(".worst", card), bars.length === 0);
    setHidden($(".empty", card), bars.length > 0);
    setText($(".empty", card), request.state === "finished" ? "Fewer than two tokens: there is no gap." : "No two tokens yet.");
    setText($(".note", card), note(gaps, found.size));
    if (bars.length === 0) return;
    paint(canvas, bars, gaps);
    setAttr(canvas, "aria-label", `Gaps between tokens. ${note(gaps, found.size)}`);
    replace($(".worst", card), worstTable(gaps, onStep));
  };
  return { draw, again: () => last && draw(last) };
}

function note(gaps, size) {
  if (!gaps.n) return "";
  const bin = size > 1 ? `, each bar the longest of ${int(size)}` : "";
  const few = gaps.n < 20 ? " (few samples)" : "";
  const worst = `grey: the ${int(gaps.worst.length)} longest`;
  return `${plural(gaps.n, "gap")}${bin} · p50 ${ms(gaps.p50_ms)} · p95 ${ms(gaps.p95_ms)}${few} · ${worst}`;
}

function paint(canvas, bars, gaps) {
  const [context, width, height] = fit(canvas);
  const colours = palette();
  const most = Math.max(...bars.map((bar) => bar.ms), 0.001);
  const bottom = height - BOTTOM;
  const y = (value) => Math.round(bottom - ((bottom - TOP) * value) / most);
  const x = (index) => Math.round(LEFT + (index * (width - LEFT)) / bars.length);
  context.textAlign = "right";
  for (const share of [0, 0.5, 1]) {
    context.fillStyle = colours.grid;
    context.fillRect(LEFT, y(most * share), width - LEFT, 1);
    context.fillStyle = colours.mut;
    context.fillText(sig3(most * share), LEFT - 6, y(most * share) + 4);
  }
  const worst = new Set(gaps.worst.map((each) => each.token));
  bars.forEach((bar, index) => {
    const room = x(index + 1) - x(index);
    const wide = Math.max(1, room > 3 ? room - 1 : room);
    context.fillStyle = worst.has(bar.token) ? colours.mut : colours.decode;
    context.fillRect(x(index), y(bar.ms), wide, bottom - y(bar.ms));
    context.fillStyle = worst.has(bar.token) ? colours.fg : colours["decode-edge"];
    context.fillRect(x(index), y(bar.ms), wide, 2);
  });
  context.fillStyle = colours.fg;
  context.strokeStyle = colours.fg;
  context.setLineDash([4, 4]);
  const line = Math.round(y(gaps.p95_ms)) + 0.5;
  context.beginPath();
  context.moveTo(LEFT, line);
  context.lineTo(width, line);
  context.stroke();
  context.setLineDash([]);
  context.fillStyle = colours.mut;
  context.textAlign = "left";
  context.fillText("token 2", LEFT, height - 4);
  context.textAlign = "right";
  context.fillText(`ms · dashed: p95 · token ${int(gaps.n + 1)}`, width - 2, height - 4);
}

/** "400 prefill tokens: 256 of …req (tenant b), …": who made the step longer. */
function causeNodes(gap) {
  const nodes = [];
  if (gap.steps > 1) nodes.push(`it spans ${plural(gap.steps, "step")}: it had no token in those between. `);
  else if (gap.ms > 1.5 * gap.step_ms) nodes.push(`the step took ${ms(gap.step_ms)} of it, the rest was between the steps. `);
  if (gap.prefill_tokens === 0) return [...nodes, `no prefill of others; ${plural(gap.decodes, "decode")} in the step`];
  nodes.push(`${plural(gap.prefill_tokens, "prefill token")} of `);
  gap.prefills.forEach((one, index) => {
    if (index) nodes.push(", ");
    const link = one.id && el("a", { class: "mono", href: requestUrl(one.id), title: one.id }, shortId(one.id));
    nodes.push(link || `number ${one.number}`);
    nodes.push(` (${one.tenant === null ? NONE : `tenant ${one.tenant}`}: ${int(one.tokens)})`);
  });
  if (gap.more_prefills) nodes.push(` and ${int(gap.more_prefills)} more`);
  return nodes;
}

function worstTable(gaps, onStep) {
  const open = (gap) =>
    el(
      "button",
      { type: "button", class: "quiet", title: "what this step did", onclick: () => onStep(gap.boot, gap.seq) },
      int(gap.step),
    );
  return table(
    [
      { label: "Longest", num: true, cell: (gap) => ms(gap.ms) },
      { label: "Token", num: true, cell: (gap) => int(gap.token) },
      { label: "Step", num: true, cell: open },
      { label: "Shared the step with", class: "wrap", cell: (gap) => el("span", {}, ...causeNodes(gap)) },
    ],
    gaps.worst,
  );
}
