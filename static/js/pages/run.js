// The report of one run; while the run goes on, its progress and the report of what is recorded so far.

import { $, coded, el, replace, setAttr, setHidden, setText } from "../dom.js";
import { again, get } from "../api.js";
import { when, zone } from "../format.js";
import { drawComputing } from "../panels/computing.js";
import { failure } from "../panels/failure.js";
import { createReportChart } from "../panels/report_chart.js";
import { fairness, interference } from "../panels/report_fairness.js";
import * as tables from "../panels/report_tables.js";
import { drawProgress } from "../panels/run_progress.js";
import { verdictTag } from "../panels/verdict.js";
import { RUN_LIVE, startShell } from "../shell.js";
import { onTheme } from "../theme.js";

const id = document.body.dataset.subject;
const path = `/api/runs/${encodeURIComponent(id)}/report`;
const { loop } = startShell();
const AGAIN_MS = 3000;
const COMPUTING_MS = 1000;
let drawChart = null;
let report = null;
let lastStatus = null;
let timer = null;

function show() {
  const run = report.run;
  const live = RUN_LIVE.includes(run.status);
  setText($("#name"), run.name || run.scenario || run.id);
  document.title = `${run.name || run.scenario || "Run"} · Batchscope`;
  replace(
    $("#tags"),
    el("span", { class: "tag" }, run.status),
    report.verdict ? verdictTag(report.verdict) : null,
    report.simulated ? el("span", { class: "tag", "data-tone": "warn" }, run.simulated ? "simulated" : "simulated hardware") : null,
    el("small", { title: zone() }, `${when(run.started || run.created)} · ${run.id}`),
  );
  setAttr($("#records"), "href", `/requests?run=${encodeURIComponent(run.id)}`);
  setHidden($("#records"), false);
  setAttr($("#download"), "href", `${path}.html`);
  setHidden($("#download"), false);
  setAttr($("#bundle"), "href", `/api/runs/${encodeURIComponent(run.id)}/bundle`);
  setHidden($("#bundle"), live);
  setHidden($("#again"), live || !run.scenario);
  if (!$("#again").hidden) offerAgain(report);
  replace(
    $("#head"),
    el("p", { class: "headline" }, ...coded(report.headline)),
    report.verdict_reason && !live && !report.headline.includes(report.verdict_reason)
      ? el("p", { class: "mut" }, report.verdict_reason)
      : null,
    run.rate_changed ? el("p", { class: "mut" }, `Its load was changed by hand: ${run.rate_changed}.`) : null,
    run.error ? el("p", { class: "error" }, run.error) : null,
  );
  const fill = (name, nodes) => replace($(`#${name} .body`), ...nodes);
  fill("reconciliation", tables.reconciliation(run.id, report.reconciliation));
  fill("waits", tables.waits(run.id, report.waits));
  fill("percentiles", tables.percentiles(run.id, report.percentiles));
  fill("goodput", tables.goodput(run.id, report));
  fill("steps", tables.steps(report.steps, report.waste));
  fill("interference", interference(report.interference));
  fill("fairness", fairness(run.id, report.fairness));
  fill("settings", tables.whatWasRun(report));
  for (const name of ["first", "percentiles", "chart", "fairness", "second", "settings"]) setHidden($(`#${name}`), false);
  drawChart = drawChart || createReportChart($("#chart"));
  drawTimeline();
  clearTimeout(timer);
  if (live) timer = setTimeout(load, AGAIN_MS);
}

/** The Load page with what this run was asked, and with what was in effect and is not now. */
async function offerAgain({ run, settings }) {
  const link = (own) => setAttr($("#again"), "href", `/load${again(run, { ...own, ...run.scheduler })}`);
  link({});
  const now = await get("/api/scheduler").catch(() => null); // it is a way on, not the report: without it, what was asked is enough
  if (now === null) return;
  const live = now.table.filter((spec) => spec.live).map((spec) => spec.name);
  const other = live.filter((name) => name in settings && JSON.stringify(settings[name]) !== JSON.stringify(now.settings[name]));
  if (other.includes("policy_params")) other.push("policy"); // which puts the others back to their defaults
  link(Object.fromEntries(other.map((name) => [name, settings[name]])));
}

const drawTimeline = () => drawChart(report.timeline, (report.run.progress || {}).rate_changes);

async function load() {
  clearTimeout(timer);
  let found;
  try {
    found = await get(path);
  } catch (error) {
    if (report === null) replace($("#head"), failure(error, load));
    return;
  }
  if (found.computing) {
    drawComputing($("#head"), found.computing, "this run"); // what else is on the page stays
    timer = setTimeout(load, COMPUTING_MS);
    return;
  }
  report = found;
  show();
}

onTheme(() => drawChart && drawTimeline());
loop.add(250, (state) => {
  drawProgress($("#progress"), state, id);
  const status = state.run !== null && state.run.id === id ? state.run.status : null;
  if (status !== lastStatus && lastStatus !== null) load();
  lastStatus = status;
});
load();
