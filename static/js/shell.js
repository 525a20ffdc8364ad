// What every page has: theme, zone, keys, connection pill, run chip, engine bar. Joins the websocket, or what a page gives in its
// place, and gives back store and loop.

import { $, el, setAttr, setHidden, setText } from "./dom.js";
import { createLoop, onResize } from "./draw.js";
import { age } from "./format.js";
import { startKeys } from "./keys.js";
import { watchScrolling } from "./scroll.js";
import { connect } from "./socket.js";
import { createStore } from "./store.js";
import { onTheme, startTheme } from "./theme.js";
import { phaseWords } from "./words.js";
import { startZone } from "./zone.js";

export const RUN_LIVE = ["pending", "running", "draining"];
const STALE_MS = 2500;

export function startShell(join = connect) {
  startTheme();
  startZone();
  startKeys();
  watchScrolling();
  $(".top [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  const store = createStore();
  const loop = createLoop(store);
  onTheme(() => loop.again());
  let heard = performance.now();
  store.subscribe(() => (heard = performance.now()));
  const quiet = () => performance.now() - heard;
  loop.add(250, (state) => drawHeader(state, quiet()));
  setInterval(() => !document.hidden && needsClock(store.state) && drawHeader(store.state, quiet()), 1000);
  onResize(() => loop.again());
  join(store);
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
  if (document.body.dataset.recorded) {
    setAttr(pill, "data-link", "recorded");
    return setText($(".text", pill), "recorded");
  }
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
  setHidden(chip, run === null);
  if (run === null) return;
  setAttr(chip, "href", `/runs/${encodeURIComponent(run.id)}`);
  const name = run.scenario || run.name || "a run";
  setText(chip, RUN_LIVE.includes(run.status) ? `${name} · ${phaseWords(run)}` : `${name} ${run.status} · report`);
}

function drawEngineBar(state) {
  const bar = $("#enginebar");
  const engine = state.gauges ? state.gauges.engine : "up";
  setHidden(bar, engine !== "down" && engine !== "loading");
  if (bar.hidden) return;
  setAttr(bar, "data-tone", engine === "down" ? "bad" : "warn");
  if (!bar.firstChild) bar.append(el("span"), " ", el("a", { href: "/?recorded=tutorial" }, "Watch a recorded run meanwhile"));
  setText(bar.firstChild, engineText(state));
}

function engineText(state) {
  const { engine, engine_text: text, now_ms: now } = state.gauges;
  if (engine === "loading") return `The engine is loading${text ? `: ${text}` : ""}. Requests are accepted and wait.`;
  const last = state.steps.t.at(-1);
  const since = last === undefined ? "" : ` Last step ${age(Math.max(0, now - last) / 1000)} ago.`;
  const next =
    state.link === "disconnected"
      ? "The server has stopped too, or cannot be reached: if it has, start it again by hand."
      : "A new one is being started.";
  return `The engine is down${text ? `: ${text}` : ""}.${since} ${next}`;
}
