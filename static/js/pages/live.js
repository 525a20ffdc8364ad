// The live page: which panel draws how often, from a view that can be frozen; the hold and the try card follow what is really so.
// With ?recorded=NAME a recording takes the socket's place, and what acts on an engine stays away.

import { $, setAttr, setHidden, setText } from "../dom.js";
import { createLoop, onResize } from "../draw.js";
import { freezable, frozenWords } from "../freeze.js";
import { onKey } from "../keys.js";
import { followCursor } from "../panels/cursor.js";
import { createHold } from "../panels/hold_card.js";
import { createLatency } from "../panels/latency_card.js";
import { createQueueChart } from "../panels/queue_chart.js";
import { drawSentence, tellEarlier } from "../panels/sentence.js";
import { createStrip } from "../panels/strip.js";
import { drawTenants } from "../panels/tenants_card.js";
import { drawTiles } from "../panels/tiles.js";
import { createTimeline } from "../panels/timeline.js";
import { createTryCard } from "../panels/try_card.js";
import { drawWaiting } from "../panels/waiting_table.js";
import { startShell } from "../shell.js";
import { onTheme } from "../theme.js";

const recorded = new URLSearchParams(location.search).get("recorded");
const played = recorded && (await import("../playback/page.js"));
const { store, loop } = startShell(played ? (store) => played.playInto(store, recorded) : undefined);
const view = freezable(store);
const shown = createLoop(view);
const strip = createStrip(view);
const queue = createQueueChart(view);
const timeline = createTimeline(view, shown);
const drawLatency = createLatency();

// one draw for all of these, so that the sentence, the tiles and the tables never disagree
shown.add(400, (state) => {
  drawSentence(state);
  drawTiles(state);
  drawWaiting(state);
  drawTenants(state);
  drawLatency(state);
});
shown.add(50, strip.draw); // frames come at 10 Hz: at 100 it would miss its turn and a step be late by a frame
shown.add(250, queue.draw);
shown.add(100, timeline.draw);
shown.add(100, followCursor);
for (const panel of [strip, queue, timeline]) shown.add(1000, panel.drawTable);
if (!recorded) letAct();

onTheme(() => shown.again());
onResize(() => shown.again());

function letAct() {
  const hold = createHold(store);
  loop.add(500, createTryCard(store).draw);
  loop.add(200, hold.draw);
  loop.add(500, drawFrozen);
  $("#freeze").addEventListener("click", () => freeze(!view.frozen));
  onKey("f", "freeze what is shown, or go on", () => freeze(!view.frozen));
  onKey("s", "one step, while the engine is held", () => hold.isHeld() && hold.act("step"));
  freezeIfLinked();
  tellEarlier().then(() => shown.again());
}

function drawFrozen() {
  const words = frozenWords(view, store);
  const tag = $("#frozen");
  setHidden(tag, words === null);
  if (words !== null) setText(tag, words);
  setAttr($("#freeze"), "aria-pressed", String(view.frozen));
  setText($("#freeze"), view.frozen ? "Go on" : "Freeze");
}

function freeze(on) {
  view.freeze(on);
  const url = new URL(location.href);
  if (on) url.searchParams.set("freeze", "1");
  else url.searchParams.delete("freeze");
  history.replaceState(null, "", url);
  drawFrozen();
}

/** A link to a frozen page freezes at the first snapshot that holds something. */
function freezeIfLinked() {
  if (new URLSearchParams(location.search).get("freeze") !== "1") return;
  let waits = true;
  store.subscribe((state) => {
    if (!waits || state.gauges === null) return;
    waits = false;
    freeze(true);
  });
}
document.addEventListener("zone", (event) => event.preventDefault()); // this page shows no time of day
