// The load page: choose a scenario, set its parameters, start it, watch it, change it, stop it. The choice is in the URL: the
// scenario, its seed, every parameter that is not as its scenario has it and every setting of the scheduler that is filled in.

import { $, $$, el, replace, setHidden, setText } from "../dom.js";
import { get, linked, post, query } from "../api.js";
import { age } from "../format.js";
import { failure, warnOf } from "../panels/failure.js";
import { createOffer } from "../panels/offer.js";
import { watchTroubles } from "../panels/run_troubles.js";
import { drawProgress } from "../panels/run_progress.js";
import { runsTable } from "../panels/runs_table.js";
import { field, optionalSettings } from "../panels/settings_form.js";
import { shapeField } from "../panels/shape_editor.js";
import { RUN_LIVE, startShell } from "../shell.js";

const { store, loop } = startShell();
const LINK = Object.fromEntries(new URLSearchParams(location.search)); // as the page was opened: it rewrites its address later
const STEM = "scheduler.";
const OF_SCHEDULER = Object.fromEntries(Object.entries(LINK).filter(([name]) => name.startsWith(STEM)));
const form = $("#form");
const offer = createOffer($("#offer"));
const troubles = watchTroubles($("#failures"), $("#log"));
let scenarios = [];
let parameters = [];
let settings = null; // the scheduler's fields, once they are here
let lastStatus; // undefined until the first look, so that the list is asked for where no run is known, too

loop.add(250, (state) => {
  drawProgress($("#progress"), state);
  troubles(state.run);
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
  $("#start").disabled = live || chosen() === null || settings === null;
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

/** The fields of the chosen scenario; `given`: values by name, as text, where they are not its own. */
function showParameters(given = {}) {
  const scenario = chosen();
  if (scenario === null) return;
  const make = (spec) => {
    const value = spec.name in given ? fromText(spec, given[spec.name]) : spec.default;
    return spec.type === "shape" ? shapeField(spec, value, seconds, edited) : field(spec, value);
  };
  parameters = scenario.parameters.map((spec) => [spec, make(spec)]);
  replace($("#parameters .fields"), ...parameters.map(([, one]) => one.node));
  setHidden($("#parameters"), parameters.length === 0);
  edited();
  allowStart();
}

const fromText = (spec, text) => (spec.type === "bool" ? text === "true" : text);

/** How long the run will send, as the form has it. */
function seconds() {
  const found = parameters.find(([spec]) => spec.name === "duration_s");
  return (found && Number(found[1].read())) || chosen().duration_s;
}

/** What is not as the scenario has it. */
function changed() {
  const read = parameters.map(([spec, one]) => [spec, one.read()]);
  return Object.fromEntries(
    read.filter(([spec, value]) => value !== undefined && value !== spec.default).map(([spec, value]) => [spec.name, value]),
  );
}

/** The URL and the preview follow the form. */
function edited() {
  const [scenario, set, seed] = [chosen(), changed(), $("#seed").value];
  if (scenario === null) return;
  const url = query({ scenario: scenario.name, ...set, seed: seed === "1" ? null : seed, ...ofScheduler() });
  if (url !== location.search) history.replaceState(null, "", url);
  offer(scenario.name, set);
  for (const [, one] of parameters) if (one.redraw) one.redraw();
}

/** Until the fields are here, what the link says stays in it. */
const ofScheduler = () => (settings === null ? OF_SCHEDULER : linked(settings.typed()));

/** Once all fields are there it is known what of the link is none of them, or nothing that one of them can hold. */
function warn() {
  if (settings === null || chosen() === null) return;
  const filled = parameters.filter(([, one]) => one.read() !== undefined).map(([spec]) => spec.name);
  const known = [$("#seed").value && "seed", ...filled, ...Object.keys(ofScheduler()), chosen().name === LINK.scenario && "scenario"];
  warnOf(Object.keys(LINK).filter((name) => !known.includes(name)).map((name) => `${name}=${LINK[name]}`));
}

async function showScenarios() {
  const box = $("#scenarios");
  try {
    scenarios = (await get("/api/scenarios")).items;
  } catch (error) {
    return replace(box, failure(error, showScenarios));
  }
  replace(box, ...scenarios.map(choice));
  const wanted = LINK.scenario || "first_look";
  const inputs = $$("input[name=scenario]");
  const input = inputs.find((each) => each.value === wanted) || inputs[0];
  if (input) input.checked = true;
  if (LINK.seed) $("#seed").value = LINK.seed;
  showParameters(LINK);
  warn();
}

async function showSettings() {
  const box = $("#scheduler");
  const given = Object.fromEntries(Object.entries(OF_SCHEDULER).map(([name, value]) => [name.slice(STEM.length), value]));
  try {
    settings = optionalSettings($(".fields", box), await get("/api/scheduler"), given);
    box.open = box.open || Object.keys(given).length > 0;
    edited();
    warn();
  } catch (error) {
    replace($(".fields", box), failure(error, showSettings));
    box.open = true; // without them nothing can be started
  }
  allowStart();
}

async function refreshRuns() {
  try {
    replace($("#runs"), runsTable((await get("/api/runs?limit=8")).items));
  } catch (error) {
    replace($("#runs"), failure(error, refreshRuns));
  }
}

async function start() {
  const note = $("#note");
  $("#start").disabled = true;
  setText(note, "starting…");
  try {
    const run = await post("/api/runs", {
      scenario: chosen().name,
      set: changed(),
      seed: Number($("#seed").value || 1), // as a link without one
      scheduler: settings.asked(),
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

$("#scenarios").addEventListener("change", () => showParameters());
form.addEventListener("input", (event) => event.target.closest("#scenarios, .shape") === null && edited());
form.addEventListener("submit", (event) => {
  event.preventDefault();
  start();
});
showScenarios();
showSettings();
