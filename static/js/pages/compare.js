// Two to five runs side by side, or one before and after a change of its settings. What is shown is in the URL.

import { $, $$, el, replace, setAttr, setHidden, setText } from "../dom.js";
import { get, query } from "../api.js";
import { wireTable } from "../panels/as_table.js";
import { createCdfs, createCourses } from "../panels/compare_lines.js";
import { addition, offers, sideList, splitWords, tooMany, urlOf } from "../panels/compare_sides.js";
import * as tables from "../panels/compare_tables.js";
import { compareWaits } from "../panels/compare_waits.js";
import { drawComputing } from "../panels/computing.js";
import { failure, warnOf } from "../panels/failure.js";
import { title } from "../panels/runs_table.js";
import { MOST } from "../panels/sides.js";
import { previous } from "../panels/similar_runs.js";
import { RUN_LIVE, startShell } from "../shell.js";
import { onTheme } from "../theme.js";

const { loop } = startShell();
const KNOWN = ["runs", "split", "tail", "with"];
const AGAIN_MS = 1000;
const LISTED = 200; // of the runs, the newest: what is offered is among them
let answer = null;
let drawn = null;
let listed = [];
let shown = 0; // counts what was asked for, so that a late answer to an earlier question is not drawn

// ---- the URL

function asked() {
  const given = new URLSearchParams(location.search);
  return {
    runs: [...new Set((given.get("runs") || "").split(",").filter(Boolean))],
    split: given.get("split"),
    tail: given.get("tail") === "1",
    previous: given.get("with") === "previous",
    unknown: [...given.keys()].filter((name) => !KNOWN.includes(name)),
  };
}

function go(changes, replaced = false) {
  history[replaced ? "replaceState" : "pushState"](null, "", urlOf({ ...asked(), ...changes }));
  show();
}

// ---- what to show

async function show() {
  const state = asked();
  const turn = ++shown;
  setAttr($("#sides"), "aria-busy", "true");
  warnOf(state.unknown);
  try {
    const draw = state.runs.length > MOST ? () => instead(...tooMany(state.runs)) : await found(state, turn);
    if (turn === shown) draw();
  } catch (error) {
    if (turn === shown) fail(error);
  }
  if (turn === shown) setAttr($("#sides"), "aria-busy", null);
}

/** How to draw what the state asks for. */
async function found(state, turn) {
  listed = (await get(`/api/runs${query({ limit: LISTED })}`)).items;
  if (state.split === null && state.runs.length < 2) return offered(state);
  const params = { runs: state.runs.join(","), split: state.split };
  const compared = await made(params, turn);
  return () => {
    answer = compared;
    setAttr($("#api"), "href", `/api/compare${query(params)}`);
    drawAnswer(state);
  };
}

/** The comparison, once every run has its figures; until then the page says how far they are. */
async function made(params, turn) {
  while (turn === shown) {
    const compared = await get(`/api/compare${query({ ...params, lines: 1, wait: 0 })}`);
    const far = compared.computing;
    if (!far || turn !== shown) return compared;
    if (!$("progress")) instead();
    setAttr($("#sides"), "aria-busy", null);
    drawComputing($("#sides"), far, titleOf(far.run));
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
  return null; // who asked has gone on to something else
}

const titleOf = (id) => title(listed.find((run) => run.id === id) || { id });

async function offered(state) {
  const [id] = state.runs;
  const run = id ? listed.find((each) => each.id === id) || (await get(`/api/runs/${encodeURIComponent(id)}`)) : null;
  const before = run && state.previous ? previous(run, listed) : null;
  if (before) return () => go({ runs: [before.id, run.id] }, true);
  return () => instead(...offers(run, listed, (split) => go({ split })));
}

// ---- drawing

function drawAnswer(state) {
  hideFigures(false);
  const { runs, split, interval } = answer;
  const without = (id) => go({ runs: state.runs.filter((each) => each !== id) });
  const add = (id) => go({ runs: [...state.runs, id] });
  replace($("#sides"), answer.sentence && el("p", { class: "headline" }, answer.sentence), sideList(answer, without), split === null ? addition(answer, listed, add) : splitWords(answer));
  setHidden($("#swap"), split !== null);
  const fill = (name, ...nodes) => replace($(`#${name} .body`), ...nodes);
  fill("differing", tables.warnings(answer), ...tables.differing(answer));
  fill("counts", tables.counts(answer));
  fill("figures", tables.figures(answer));
  fill("waits", ...compareWaits(answer));
  fill("tenants", tables.tenants(answer));
  setHidden($("#tenants"), answer.tenants.length < 2);
  setText($("#method"), methodWords(interval));
  drawLines();
  document.title = `Compare ${runs.map(({ run }) => title(run)).join(" and ")} · Batchscope`;
}

function methodWords({ level, method }) {
  const holds = `An interval holds ${Math.round(100 * level)} % of the differences to A that came out of a ${method}.`;
  return `${holds} Few samples are marked *. A reading needs 100 values on both sides.`;
}

function drawLines() {
  if (answer === null) return;
  drawn = drawn || { cdfs: createCdfs($("#cdfs")), courses: createCourses($("#courses")) };
  const { tail } = asked();
  drawn.cdfs(answer, tail);
  drawn.courses(answer);
  setAttr($("#tail"), "aria-pressed", String(tail));
}

function hideFigures(hidden) {
  for (const card of $$("[data-figures]")) setHidden(card, hidden);
  setHidden($("#swap"), hidden);
}

/** What stands where there is nothing to compare. */
function instead(...nodes) {
  answer = null;
  hideFigures(true);
  replace($("#sides"), ...nodes);
}

function fail(error) {
  const pick = el("a", { class: "button", href: "/runs" }, "Pick runs");
  instead(failure(error, show), el("p", { class: "empty" }, pick));
}

// ---- what the reader does

for (const button of $$("[data-as-table]")) wireTable(button.closest(".card"));
$("#swap").addEventListener("click", () => go({ runs: [...asked().runs].reverse() }));
$("#tail").addEventListener("click", () => {
  history.replaceState(null, "", urlOf({ ...asked(), tail: !asked().tail }));
  drawLines();
});
addEventListener("popstate", show);
onTheme(drawLines);
let lastStatus = null;
loop.add(1000, (state) => {
  const status = state.run === null ? null : `${state.run.id} ${state.run.status}`;
  const moved = lastStatus !== null && status !== lastStatus;
  lastStatus = status;
  if (moved && answer !== null && answer.runs.some(({ run }) => RUN_LIVE.includes(run.status))) show();
});
show();
