// The load page: choose a scenario, set its parameters, start it, watch it, stop it. The choice is in the URL.

import { $, $$, el, replace, setHidden, setText } from "../dom.js";
import { get, post } from "../api.js";
import { age } from "../format.js";
import { drawProgress } from "../panels/run_progress.js";
import { runsTable } from "../panels/runs_table.js";
import { field, optionalSettings } from "../panels/settings_form.js";
import { RUN_LIVE, startShell } from "../shell.js";

const { store, loop } = startShell();
const form = $("#form");
let scenarios = [];
let parameters = [];
let changes = () => ({});
let lastStatus; // undefined until the first look, so that the list is asked for where no run is known, too

loop.add(250, (state) => {
  drawProgress($("#progress"), state);
  const status = state.run === null ? null : `${state.run.id} ${state.run.status}`;
  if (status !== lastStatus) {
    lastStatus = status;
    refreshRuns();
    allowStart();
  }
});

function chosen() {
  const input = $("input[name=scenario]:checked");
  return input ? scenarios.find((scenario) => scenario.name === input.value) : null;
}

function allowStart() {
  const run = store.state.run;
  const live = run !== null && RUN_LIVE.includes(run.status);
  $("#start").disabled = live || chosen() === null;
  $("#start").title = live ? "a run is active" : "";
}

function choice(scenario) {
  const facts = [scenario.duration_s ? age(scenario.duration_s) : null, (scenario.processes || []).join(", ")]
    .filter(Boolean)
    .join(" · ");
  const input = el("input", { type: "radio", name: "scenario", value: scenario.name });
  return el(
    "label",
    { class: "choice" },
    input,
    el("b", {}, scenario.title || scenario.name),
    el("p", {}, scenario.description),
    el("span", { class: "facts" }, el("code", {}, scenario.name), facts ? ` · ${facts}` : ""),
  );
}

function showParameters() {
  const scenario = chosen();
  if (scenario === null) return;
  const url = new URL(location.href);
  url.searchParams.set("scenario", scenario.name);
  history.replaceState(null, "", url);
  parameters = scenario.parameters.map((spec) => [
    spec,
    field(spec, scenario.values ? scenario.values[spec.name] : spec.default),
  ]);
  replace($("#parameters .fields"), ...parameters.map(([, one]) => one.node));
  setHidden($("#parameters"), parameters.length === 0);
  allowStart();
}

async function showScenarios() {
  const box = $("#scenarios");
  try {
    scenarios = (await get("/api/scenarios")).items;
  } catch (error) {
    replace(box, el("p", { class: "error" }, error.message));
    return;
  }
  replace(box, ...scenarios.map(choice));
  const wanted = new URLSearchParams(location.search).get("scenario") || "first_look";
  const inputs = $$("input[name=scenario]");
  const input = inputs.find((each) => each.value === wanted) || inputs[0];
  if (input) input.checked = true;
  showParameters();
}

async function showSettings() {
  try {
    const { table, settings, policies } = await get("/api/scheduler");
    changes = optionalSettings(
      $("#scheduler .fields"),
      table,
      settings,
      policies.map((policy) => policy.name),
    );
  } catch (error) {
    replace($("#scheduler .fields"), el("p", { class: "error" }, error.message));
  }
}

async function refreshRuns() {
  try {
    replace($("#runs"), runsTable((await get("/api/runs?limit=8")).items));
  } catch (error) {
    replace($("#runs"), el("p", { class: "error" }, error.message));
  }
}

async function start() {
  const note = $("#note");
  const set = {};
  for (const [spec, one] of parameters) {
    const value = one.read();
    if (value !== undefined && value !== spec.default) set[spec.name] = value;
  }
  $("#start").disabled = true;
  setText(note, "starting…");
  try {
    const run = await post("/api/runs", {
      scenario: chosen().name,
      set,
      seed: Number($("#seed").value) || 0,
      scheduler: changes(),
    });
    replace(
      note,
      "started: ",
      el("a", { href: `/runs/${encodeURIComponent(run.id)}` }, "its report"),
      " · ",
      el("a", { href: "/" }, "watch live"),
    );
  } catch (error) {
    setText(note, error.message);
    allowStart();
  }
}

$("#scenarios").addEventListener("change", showParameters);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  start();
});
showScenarios();
showSettings();
