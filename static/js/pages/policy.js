// The policy page: settings as a live form, the hold, the catalog with guarantees, the same as flags of vLLM, what was changed before.
// An edit is in the address as `scheduler.NAME`, so a link (a preset is one) shows what it would change.

import { $, $$, el, replace, setAttr, setHidden, setText } from "../dom.js";
import { get, linked, patch, post, query } from "../api.js";
import { int, ms, percent, sig3, valueText } from "../format.js";
import { failure, warnOf } from "../panels/failure.js";
import { createKeeping } from "../panels/keeping.js";
import { createViews } from "../panels/saved_views.js";
import { changeWords, drawHistory } from "../panels/settings_changes.js";
import { field, paramField } from "../panels/settings_form.js";
import { startShell } from "../shell.js";

const HELD = { pause: "the engine is held", step: "one step was taken", resume: "it runs" };
const STEM = "scheduler.";
const OWN = `${STEM}policy_params.`;
const { store, loop } = startShell();
let shown = null;
let fields = [];
let params = [];
let lastVersion = null;
const came = location.search;
let filled = null; // what the form held when all that `came` asks for was in it
let link = Object.fromEntries(new URLSearchParams(location.search)); // what it asks for, until the form is there
const drawPresets = createViews($("#presets"), whole, (text) => location.assign(text), "preset", "policy-presets");

const current = () => fields.find(([spec]) => spec.name === "policy")[1].read();

function build() {
  fields = shown.table
    .filter((spec) => spec.type !== "dict")
    .map((spec) => {
      const made = spec.name === "policy" ? { ...spec, choices: shown.policies.map((policy) => policy.name) } : spec;
      return [spec, field(made, shown.settings[spec.name], { restart: !spec.live })];
    });
  replace($("#fields"), ...fields.map(([, one]) => one.node));
  buildParams();
  fields.find(([spec]) => spec.name === "policy")[1].input.addEventListener("change", () => buildParams());
  setText($("#version"), `version ${int(shown.version)} · the engine is ${shown.engine}`);
  holdButtons();
  catalog();
  flags();
  fill();
  diff();
}

/** What the link asks for is filled in; what of it no field has, or can hold, is said. */
function fill() {
  const asked = Object.entries(link);
  link = {};
  if (asked.length === 0) return;
  const own = Object.fromEntries(asked.filter(([name]) => name.startsWith(OWN)).map(([name, text]) => [name.slice(OWN.length), text]));
  const lost = asked.filter(([name, text]) => !name.startsWith(OWN) && !put(name.replace(STEM, ""), text));
  buildParams(own);
  filled = whole();
  const known = Object.assign({}, ...params.map(([, one]) => one.read()));
  warnOf([...lost.map(([name, text]) => `${name}=${text}`), ...Object.keys(own).filter((name) => !(name in known))]);
}

/** Into the field of that name; false where there is none, or it cannot hold the text. */
function put(name, text) {
  const found = fields.find(([spec]) => spec.name === name);
  if (!found) return false;
  const { input } = found[1];
  const before = input.value;
  if (input.type === "checkbox") input.checked = text === "true";
  else input.value = text;
  if (input.value !== "") return true;
  input.value = before;
  return false;
}

/** All that the form holds of what can be changed live, as a link. */
function whole() {
  const live = fields.filter(([spec]) => spec.live).map(([spec, one]) => [spec.name, one.read()]);
  return query(linked({ ...Object.fromEntries(live), policy_params: Object.assign({}, ...params.map(([, one]) => one.read())) }));
}

/** The parameters of the chosen policy follow its field. */
function buildParams(given = {}) {
  const policy = shown.policies.find((each) => each.name === current());
  const values = policy && policy.name === shown.settings.policy ? shown.settings.policy_params : {};
  for (const [, one] of params) one.node.remove();
  const said = (one) => JSON.stringify(one.read());
  params = (policy ? policy.params : []).map((spec) => {
    const [one, before] = [paramField(spec, values, { given }), said(paramField(spec, values))];
    return [spec, one, () => said(one) !== before];
  });
  fields.find(([spec]) => spec.name === "policy")[1].node.after(...params.map(([, one]) => one.node));
  diff();
}

/** Whether a field holds another value than is in effect. */
function differs([{ name }, one]) {
  const value = one.read();
  return value !== undefined && value !== shown.settings[name];
}

function changes() {
  const live = fields.filter((each) => each[0].live && differs(each));
  const found = Object.fromEntries(live.map(([spec, one]) => [spec.name, one.read()]));
  const wanted = Object.assign({}, ...params.map(([, one]) => one.read()));
  for (const [spec] of params) if (wanted[spec.name] === spec.default) delete wanted[spec.name];
  const before = shown.settings.policy_params || {};
  const same = Object.keys({ ...before, ...wanted }).every((name) => before[name] === wanted[name]);
  if (!same) found.policy_params = wanted;
  return found;
}

/** What is wanted of settings that the server reads at its start, as flags. */
const wanted = () =>
  fields.filter((each) => !each[0].live && differs(each)).map(([spec, one]) => `--set ${spec.name}=${one.read()}`);

const edited = () => Object.keys(changes()).length + wanted().length > 0;

function diff() {
  if (shown === null) return;
  const found = Object.entries(changes());
  const text = changeWords(found.map(([name, to]) => ({ name, from: shown.settings[name], to })));
  const flags = wanted();
  setText($("#diff"), text || (flags.length ? "" : "Nothing is changed."));
  setHidden($("#restart"), flags.length === 0);
  setText($("#command"), `batchscope serve ${flags.join(" ")}`);
  setHidden($("#apply"), flags.length > 0 && found.length === 0);
  $("#apply").disabled = found.length === 0;
  $("#revert").disabled = !edited();
  if (Object.keys(link).length) return; // it is still to be filled in
  for (const each of [...fields, ...params]) each[1].node.classList.toggle("edited", (each[2] || differs)(each));
  for (const chip of $$("a.tag")) setAttr(chip, "aria-current", chip.search === came && whole() === filled ? "true" : null);
  history.replaceState(null, "", location.pathname + query(linked(changes())));
  drawPresets();
}

/** What recording and sending cost the engine, beside the steps that it takes. */
function drawCost({ gauges }) {
  if (gauges === null) return;
  const { observe_us_step: cost, step_ms_p50: step, host_late: late, dashboards } = gauges;
  setText($("#cost-step"), cost === null ? "no step yet" : `${sig3(cost)} µs`);
  setText($("#cost-share"), `${percent(cost && step ? cost / 1000 / step : null)} %${step ? ` of ${ms(step)}` : ""}`);
  setText($("#cost-late"), int(late));
  setText($("#cost-pages"), int(dashboards));
}

function holdButtons() {
  for (const button of $$("[data-hold]")) {
    setHidden(button, (button.dataset.hold === "pause") === shown.paused);
    button.onclick = () => act(() => post(`/api/scheduler/${button.dataset.hold}`), HELD[button.dataset.hold]);
  }
}

function catalog() {
  replace(
    $("#policies"),
    ...shown.policies.map((policy) =>
      el(
        "article",
        { class: "policy", "data-current": String(policy.name === shown.settings.policy) },
        el(
          "h3",
          {},
          policy.name,
          policy.yours ? el("small", {}, " · yours") : "",
          policy.name === shown.settings.policy ? el("small", {}, " · in effect") : "",
        ),
        el("p", {}, policy.help),
        el("p", { class: "mut" }, el("b", {}, "Guarantee: "), policy.guarantee),
        policy.params.length
          ? el(
              "dl",
              {},
              ...policy.params.flatMap((param) => [
                el("dt", {}, param.name),
                el(
                  "dd",
                  {},
                  `${param.help} (${valueText(param.default)}; ${valueText(param.low)} to ${valueText(param.high)})`,
                ),
              ]),
            )
          : null,
        policy.source ? el("small", {}, policy.source) : null,
        policy.yours ? el("p", { class: "mut" }, `${policy.file}, sha256 ${policy.sha256.slice(0, 12)}…`) : null,
      ),
    ),
  );
}

/** vLLM's spelling of what it has too; what it lacks is named. */
function flags() {
  const model = store.state.server ? store.state.server.model : "MODEL";
  setText($("#flags"), ["vllm serve " + model, ...shown.vllm.flags].join(" \\\n  "));
  setText($("#lacks"), `vLLM lacks: ${shown.vllm.lacks.join(", ")}.`);
}

function say(text, refused = false) {
  setText($("#note"), text);
  setAttr($("#note"), "class", refused ? "error" : "mut");
}

async function act(call, done) {
  say("…");
  try {
    shown = await call();
    build();
    say(done);
  } catch (error) {
    say(error.status === 409 ? `${error.message} — somebody changed the settings meanwhile: reload to see them.` : error.message, true);
  }
}

async function load() {
  try {
    const found = await get("/api/scheduler");
    if (shown !== null && edited()) return; // an edit begun meanwhile stays
    if (JSON.stringify(found) === JSON.stringify(shown)) return flags(); // as does the place of who types; the model's name may be new
    shown = found;
    build();
  } catch (error) {
    replace($("#fields"), failure(error, load));
  }
}

$("#form").addEventListener("input", (event) => event.target.closest("#presets") || diff());
$("#form").addEventListener("submit", (event) => {
  event.preventDefault();
  act(() => patch("/api/scheduler", { ...changes(), version: shown.version }), "applied");
});
$("#revert").addEventListener("click", () => (say(""), build()));
for (const [button, text] of [["#copy", "#flags"], ["#copy-command", "#command"]])
  $(button).addEventListener("click", () =>
    navigator.clipboard.writeText($(text).textContent).catch(() => getSelection().selectAllChildren($(text))),
  );
loop.add(1000, (state) => {
  const version = state.server === null ? null : `${state.boot} ${state.server.settings_version} ${state.gauges.engine}`;
  drawCost(state);
  if (version === lastVersion) return;
  lastVersion = version;
  drawHistory(state.boot, state.server && state.server.settings_version);
  if (shown !== null && edited()) flags(); // with the model's name
  else load(); // an edit under way is not thrown away; the version check guards it
});
load();
createKeeping();
