// The timeline page: its state is in the URL, its data in `page`; deeds change them, paint draws them, once a frame.

import { $, $$, setAttr, setHidden, setStyle, setText } from "../dom.js";
import { never, soon } from "../draw.js";
import { int } from "../format.js";
import { asTable } from "../panels/as_table.js";
import { hover } from "../panels/canvas.js";
import { followSteps, openStep } from "../panels/step_card.js";
import { startShell } from "../shell.js";
import { onTheme } from "../theme.js";
import { OVERVIEW, overviewT } from "../timeline/bands.js";
import { createDeeds } from "../timeline/deeds.js";
import { keys, pointer } from "../timeline/hands.js";
import { createPage } from "../timeline/page.js";
import { fillPicker, showDrawing, showElsewhere, showFailure, showLoading, showNothing } from "../timeline/messages.js";
import { order, paint } from "../timeline/paint.js";
import { barTip, drawAreaCard, drawChosenCard, drawKey, headText, noteText, stepTip } from "../timeline/panels.js";
import { TABLE, tableRows } from "../timeline/panels.js";
import { extent, isLive, listRuns, LIVE, load, loadChanges, loadSteps, newest, noSteps, present, renewed } from "../timeline/records.js";
import { read, write } from "../timeline/url.js";

const REFRESH_MS = 2000;
const SETTLE_MS = 200;
const AROUND_S = 1; // to either side of the step that a link asks for
const { store } = startShell();
const page = createPage($("#bands canvas"), $("#bars canvas"));
const saying = (place) => (text) => setText($(place), text);
Object.assign(page, { arrange: () => order(page), point, say: saying("#announce"), found: saying("#found") });
const deeds = createDeeds(page, { changed, committed, openStep: (...step) => (note(false), openStep(...step)) });
const drawTable = asTable($("#chart"), { state: page }, TABLE, tableRows);

let asked = false;
function draw() {
  if (asked || page.records === null) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    if ($("#drawing").hidden || page.records === null) return;
    const scroller = $(".scroller");
    setStyle($("#bands"), "--gutter", `${scroller.offsetWidth - scroller.clientWidth}px`);
    const merged = paint(page);
    setText($("#window"), headText(page.view));
    setText($(".note"), noteText(page, merged));
    const inView = page.changes.filter(({ t }) => t >= page.view.from && t <= page.view.to);
    setAttr(
      page.bandsCanvas,
      "aria-label",
      `${int(page.steps.t.length)} steps, most waiting ${int(page.steps.waiting.reduce((a, b) => Math.max(a, b), 0))}${inView.map(({ t, text }) => `; at ${t.toFixed(1)} s ${text}`).join("")}`,
    );
    soon("cards", 120, drawCards);
  });
}

function drawCards() {
  if (page.records === null) return; // another run is being asked for
  drawChosenCard(page);
  drawAreaCard(page);
  drawTable(page);
  drawKey(page);
}

function point(t) {
  page.cursor = t;
  const line = $(".cursor");
  setHidden(line, t === null);
  if (t !== null) setStyle(line, "transform", `translateX(${Math.round(page.view.x(t))}px)`);
}

/** Whoever is sent the address sees this run, and not the newest of that day. */
const note = (step) => write(page.state, step, page.id);

function changed() {
  draw();
  soon("url", SETTLE_MS, () => note(false));
  if (page.records && page.records.truncated) soon("detail", SETTLE_MS, loadDetail);
}

function committed() {
  never("url");
  note(true);
  draw();
}

/** The bars of the window in view, where those of the whole are too many. */
async function loadDetail() {
  const { view, records } = page;
  if (records === null) return;
  const margin = view.span / 4;
  const window = view.isWhole() ? null : [view.from - margin, view.to + margin];
  await receive(async () => {
    const found = await load(page.run, page.state.rows, window, records.start);
    return () => accept(found);
  });
}

/** Does what `ask` resolves to, unless something newer was asked meanwhile; a failure is said beside what is there. */
async function receive(ask) {
  const turn = ++page.turn;
  try {
    const take = await ask();
    if (turn !== page.turn) return;
    page.error = null;
    take();
  } catch (error) {
    if (turn !== page.turn) return;
    page.error = error.message;
    draw();
  }
}

function accept(records) {
  page.records = records;
  page.chosen = page.state.sel === null ? -1 : records.bars.find(page.state.sel, page.state.phase);
  page.arrange();
  draw();
}

/** Everything anew: at first, when another run or other rows are asked for, and `quiet`ly until a live one has begun. */
async function open(quiet = false) {
  const turn = ++page.turn;
  const { state, view } = page;
  if (!quiet) showLoading();
  page.records = null;
  for (const button of $$("[data-rows]")) setAttr(button, "aria-pressed", String(button.dataset.rows === state.rows));
  try {
    const runs = await listRuns(state.run);
    const id = state.run || (runs.length ? runs[0].id : LIVE);
    const run = runs.find((each) => each.id === id) || null;
    const records = await load(run, state.rows, null, null);
    const steps = records.start === null ? noSteps() : await loadSteps(run, records.start, noSteps(), newest(records));
    const changes = await loadChanges(run, records.start);
    if (turn !== page.turn) return;
    fillPicker(runs, id, LIVE);
    Object.assign(page, { id, run, steps, changes, error: null });
    begin(records, view);
  } catch (error) {
    if (turn !== page.turn) return;
    showFailure(error, () => open());
  }
}

function begin(records, view) {
  page.nothing = records.bars.count === 0 && page.steps.t.length === 0;
  if (page.nothing) return showNothing(page.run);
  [view.first, view.last] = extent(records, page.steps, page.run);
  page.now = present(records, page.run, store.state, view.last);
  view.last = Math.max(view.last, page.now);
  const range = page.state.range;
  if (range && (range[0] > view.last || range[1] < view.first))
    return showElsewhere(range, view, () => change({ range: null }));
  const step = range ? -1 : stepOf(page.state.step);
  if (range) view.show(...range);
  else if (step >= 0) view.show(page.steps.t[step] - AROUND_S, page.steps.t[step] + AROUND_S);
  else view.fit();
  showDrawing();
  accept(records);
  if (records.truncated && range) loadDetail();
  return null;
}

/** The place of a link's step, "boot.seq", among those that are here; -1. */
const stepOf = (name) => page.steps.seq.findIndex((seq, i) => `${page.steps.boot[i]}.${seq}` === name);

/** A long run costs the server more to read: it is read the less often, a tenth of the time at most. */
async function keepUp() {
  const began = performance.now();
  await refresh();
  soon("refresh", Math.max(REFRESH_MS, 9 * (performance.now() - began)), keepUp);
}

async function refresh() {
  if (document.hidden || !isLive(page.run)) return;
  if (page.records === null) return page.nothing && open(true);
  const { view } = page;
  await receive(async () => {
    const whole = await load(page.run, page.state.rows, page.records.window, page.records.start);
    const steps = whole.start === page.records.start ? page.steps : noSteps();
    await loadSteps(page.run, whole.start, steps, newest(whole));
    const run = page.run && (await renewed(page.run));
    const changes = await loadChanges(run, whole.start);
    return () => {
      Object.assign(page, { run, steps, changes });
      follow(whole, view);
      accept(whole);
    };
  });
}

/** Whoever looks at the end goes on looking at it; whoever looks elsewhere is left there. */
function follow(records, view) {
  const [whole, atEnd, before] = [view.isWhole(), view.to >= view.last, view.last];
  const [, last] = extent(records, page.steps, page.run);
  page.now = present(records, page.run, store.state, last);
  view.last = Math.max(last, page.now);
  if (whole) view.fit();
  else if (atEnd) view.show(view.from + view.last - before, view.to + view.last - before);
}

function wire() {
  for (const canvas of [page.bandsCanvas, page.barsCanvas]) {
    pointer(canvas, page.view, deeds);
    canvas.addEventListener("pointerleave", () => point(null));
  }
  keys(deeds, () => page.records !== null && !$("#drawing").hidden);
  hover(page.bandsCanvas, (x, y) => {
    if (!page.records || x < page.view.left) return null;
    return stepTip(page, y <= OVERVIEW.height ? overviewT(page.view, x) : page.view.t(x));
  });
  hover(page.barsCanvas, (x, y) => {
    const index = page.records ? deeds.hit(x, y, page.barsCanvas) : -1;
    setStyle(page.barsCanvas, "cursor", index < 0 ? "crosshair" : "pointer");
    return index < 0 ? null : barTip(page, index);
  });
  $("#run").addEventListener("change", (event) =>
    change({ run: event.target.value, range: null, sel: null, phase: null, area: null, marks: [], pins: [] }),
  );
  for (const button of $$("[data-rows]"))
    button.addEventListener("click", () => change({ rows: button.dataset.rows, pins: [] }));
  $("#find").addEventListener("keydown", ({ key, target }) => key === "Enter" && page.records && deeds.find(target.value.trim()));
  $("#find").addEventListener("input", () => page.found(""));
  addEventListener("popstate", () => returnTo(read()));
  addEventListener("resize", draw);
  onTheme(draw);
  soon("refresh", REFRESH_MS, keepUp);
}

function change(differences) {
  Object.assign(page.state, differences);
  note(true);
  open();
}

/** The browser went back or forth. */
function returnTo(state) {
  state.run ||= page.state.run;
  const other = state.run !== page.state.run || state.rows !== page.state.rows;
  Object.assign(page.state, state);
  if (other || page.records === null) return open();
  if (state.range) page.view.show(...state.range);
  else page.view.fit();
  return accept(page.records);
}

wire();
followSteps();
open();
