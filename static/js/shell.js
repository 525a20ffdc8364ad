// What every page has: theme, zone, keys, connection pill, run chip, engine bar. Joins the websocket and gives back store and loop.

import { $, setAttr, setHidden, setText } from "./dom.js";
import { createLoop } from "./draw.js";
import { age, clock } from "./format.js";
import { startKeys } from "./keys.js";
import { connect } from "./socket.js";
import { createStore } from "./store.js";
import { onTheme, startTheme } from "./theme.js";
import { startZone } from "./zone.js";

export const RUN_LIVE = ["pending", "running", "draining"];
const STALE_MS = 2500;

export function startShell() {
  startTheme();
  startZone();
  startKeys();
  const store = createStore();
  const loop = createLoop(store);
  onTheme(() => loop.again());
  let heard = performance.now();
  let resizing = null;
  store.subscribe(() => (heard = performance.now()));
  const quiet = () => performance.now() - heard;
  loop.add(250, (state) => drawHeader(state, quiet()));
  setInterval(() => !document.hidden && needsClock(store.state) && drawHeader(store.state, quiet()), 1000);
  addEventListener("resize", () => {
    clearTimeout(resizing);
    resizing = setTimeout(() => loop.again(), 80);
  });
  connect(store);
  return { store, loop };
}

/** Ages tick only where something is amiss or under way: at rest the page stands still. */
function needsClock(state) {
  const gauges = state.gauges;
  return (
    state.link !== "live" ||
    (gauges !== null && (gauges.engine !== "up" || gauges.running + gauges.waiting + gauges.preempted > 0))
  );
}

function drawHeader(state, quietMs) {
  drawPill(state, quietMs);
  drawRunChip(state.run);
  drawEngineBar(state);
}

function drawPill(state, quietMs) {
  const pill = $("#link");
  const paused = state.link === "live" && state.gauges && state.gauges.engine === "paused";
  const before = pill.dataset.link;
  setAttr(pill, "data-link", paused ? "paused" : state.link);
  setText($(".text", pill), paused ? "paused" : pillText(state, quietMs));
  setAttr(document.body, "data-stale", String(state.link === "disconnected"));
  if (before !== pill.dataset.link && (state.link === "disconnected" || before === "disconnected"))
    setText($("#announce"), pillText(state, 0));
}

function pillText(state, quietMs) {
  if (state.link === "disconnected" && state.linkWhy) return `refused: ${state.linkWhy}`;
  if (state.link === "disconnected") return `disconnected ${age(quietMs / 1000)}, retrying`;
  if (state.link === "catching_up") return "catching up";
  if (state.link === "connecting") return "connecting";
  return needsClock(state) && quietMs > STALE_MS ? `live · last data ${age(quietMs / 1000)} ago` : "live";
}

function drawRunChip(run) {
  const chip = $("#runchip");
  const live = run !== null && RUN_LIVE.includes(run.status);
  setHidden(chip, !live);
  if (!live) return;
  setAttr(chip, "href", `/runs/${encodeURIComponent(run.id)}`);
  const of = run.duration_s ? ` / ${clock(run.duration_s)}` : "";
  setText(chip, `${run.scenario || run.name} · ${run.status} ${clock(run.elapsed_s)}${of}`);
}

function drawEngineBar(state) {
  const bar = $("#enginebar");
  const engine = state.gauges ? state.gauges.engine : "up";
  setHidden(bar, engine !== "down" && engine !== "loading");
  if (bar.hidden) return;
  setAttr(bar, "data-tone", engine === "down" ? "bad" : "warn");
  setText(bar, engineText(state));
}

function engineText(state) {
  const { engine, engine_text: text, now_ms: now } = state.gauges;
  if (engine === "loading") return `The engine is loading${text ? `: ${text}` : ""}. Requests are accepted and wait.`;
  const last = state.steps.t.at(-1);
  const since = last === undefined ? "" : ` Last step ${age(Math.max(0, now - last) / 1000)} ago.`;
  return `The engine is down${text ? `: ${text}` : ""}.${since} A new one is being started.`;
}
