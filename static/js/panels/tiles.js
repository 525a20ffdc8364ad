// The tiles, and the (boot, seq) that the page shows. data-value is the unrounded gauge, so that tests can compare it.

import { $, $$, setAttr, setText } from "../dom.js";
import { int, msParts, percent, sig3 } from "../format.js";

const used = (g) => (g.blocks_total === null ? null : g.blocks_total - g.blocks_free);
const latency = (p50, n) => `p50 ${msParts(p50).join(" ")}\nn ${int(n)}`;
const few = (n) => n > 0 && n < 20; // fewer than one sample beyond p95

const TILES = {
  waiting: { value: (g) => g.waiting, text: int, sub: (g) => (g.preempted ? `${int(g.preempted)} preempted` : "") },
  running: {
    value: (g) => g.running,
    text: int,
    unit: (g) => `/ ${int(g.max_num_seqs)} slots`,
    sub: (g) => `${int(g.finished)} finished`,
  },
  kv: {
    value: used,
    text: (v, g) => percent(v === null ? null : v / g.blocks_total),
    sub: (g) => `${int(used(g))} of ${int(g.blocks_total)}${g.preemptions ? `\n${int(g.preemptions)} preemptions` : ""}`,
  },
  output_tok_s: { value: (g) => g.output_tok_s, text: sig3, sub: () => "last 2 s" },
  prefill_tok_s: { value: (g) => g.prefill_tok_s, text: sig3, sub: () => "last 2 s" },
  step_ms_p50: { value: (g) => g.step_ms_p50, ms: true, sub: (g) => `${percent(g.budget_used)} % of budget` },
  ttft_p95_ms: {
    value: (g) => g.ttft_p95_ms,
    ms: true,
    sub: (g) => latency(g.ttft_p50_ms, g.ttft_n),
    few: (g) => few(g.ttft_n),
  },
  itl_p95_ms: { value: (g) => g.itl_p95_ms, ms: true, sub: (g) => latency(g.itl_p50_ms, g.itl_n), few: (g) => few(g.itl_n) },
  observe_us_step: {
    value: (g) => g.observe_us_step,
    text: sig3,
    sub: (g) => (g.host_late ? `${int(g.host_late)} late steps` : "recording and sending"),
  },
};

export function drawTiles(state) {
  const gauges = state.gauges;
  if (gauges === null) return;
  for (const node of $$("[data-tile]")) drawTile(node, TILES[node.dataset.tile], gauges);
  setAttr(document.body, "data-boot", state.boot);
  setAttr(document.body, "data-seq", state.seq);
}

function drawTile(node, tile, gauges) {
  const value = tile.value(gauges);
  const [text, unit] = tile.ms ? msParts(value) : [tile.text(value, gauges), tile.unit ? tile.unit(gauges) : null];
  const card = node.parentElement;
  setAttr(node, "data-value", JSON.stringify(value));
  setText(node, text);
  if (unit !== null) setText($(".unit", card), unit);
  setText($(".sub", card), tile.sub(gauges));
  const isFew = Boolean(tile.few && tile.few(gauges));
  if (card.classList.contains("few") !== isFew) {
    card.classList.toggle("few", isFew);
    setAttr(node, "title", isFew ? "few samples: fewer than one is expected beyond p95" : null);
  }
}
