// The policy page: settings as a live form, the hold, the catalog with guarantees, the same as flags of vLLM.

import { $, $$, el, replace, setHidden, setText } from "../dom.js";
import { get, patch, post } from "../api.js";
import { int, valueText } from "../format.js";
import { failure } from "../panels/failure.js";
import { createKeeping } from "../panels/keeping.js";
import { familyField, field } from "../panels/settings_form.js";
import { startShell } from "../shell.js";

const HELD = { pause: "the engine is held", step: "one step was taken", resume: "it runs" };
const { store, loop } = startShell();
let shown = null;
let fields = [];
let params = [];
let lastVersion = null;

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
  fields.find(([spec]) => spec.name === "policy")[1].input.addEventListener("change", buildParams);
  setText($("#version"), `version ${int(shown.version)} · the engine is ${shown.engine}`);
  holdButtons();
  catalog();
  flags();
  diff();
}

/** The parameters of the chosen policy follow its field. */
function buildParams() {
  const policy = shown.policies.find((each) => each.name === current());
  const values = policy && policy.name === shown.settings.policy ? shown.settings.policy_params : {};
  for (const [, one] of params) one.node.remove();
  params = (policy ? policy.params : []).map((spec) => {
    if (spec.name.endsWith(".*")) return [spec, familyField(spec, values)];
    const type = spec.whole ? "int" : "float";
    const value = values[spec.name] === undefined ? spec.default : values[spec.name];
    return [spec, field({ ...spec, name: `policy_params.${spec.name}`, type }, value)];
  });
  fields.find(([spec]) => spec.name === "policy")[1].node.after(...params.map(([, one]) => one.node));
  diff();
}

function changes() {
  const found = {};
  for (const [spec, one] of fields) {
    const value = one.read();
    if (spec.live && value !== undefined && value !== shown.settings[spec.name]) found[spec.name] = value;
  }
  const wanted = {};
  for (const [spec, one] of params) {
    const value = one.read();
    if (spec.name.endsWith(".*")) Object.assign(wanted, value);
    else if (value !== undefined && value !== spec.default) wanted[spec.name] = value;
  }
  const before = shown.settings.policy_params || {};
  const same = Object.keys({ ...before, ...wanted }).every((name) => before[name] === wanted[name]);
  if (!same) found.policy_params = wanted;
  return found;
}

/** What is wanted of settings that the server reads at its start, as flags. */
const wanted = () =>
  fields
    .map(([spec, one]) => [spec, one.read()])
    .filter(([spec, value]) => !spec.live && value !== undefined && value !== shown.settings[spec.name])
    .map(([spec, value]) => `--set ${spec.name}=${value}`);

const edited = () => Object.keys(changes()).length + wanted().length > 0;

function diff() {
  if (shown === null) return;
  const found = Object.entries(changes());
  const text = found.map(([name, value]) => `${name} ${valueText(shown.settings[name])} → ${valueText(value)}`).join(" · ");
  const flags = wanted();
  setText($("#diff"), text || (flags.length ? "" : "Nothing is changed."));
  setHidden($("#restart"), flags.length === 0);
  setText($("#command"), `batchscope serve ${flags.join(" ")}`);
  setHidden($("#apply"), flags.length > 0 && found.length === 0);
  $("#apply").disabled = found.length === 0;
  $("#revert").disabled = !edited();
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
  const dash = (name) => `--${name.replaceAll("_", "-")}`;
  const write = (name, value) => {
    if (name === "policy") return ["fcfs", "priority"].includes(value) ? `--scheduling-policy ${value}` : null;
    return typeof value === "boolean" ? (value ? dash(name) : `--no-${name.replaceAll("_", "-")}`) : `${dash(name)} ${value}`;
  };
  const known = shown.table.filter((spec) => spec.vllm).map((spec) => [spec.name, write(spec.name, shown.settings[spec.name])]);
  const lacks = [
    ...shown.table.filter((spec) => !spec.vllm).map((spec) => spec.name),
    ...known.filter(([, text]) => text === null).map(([name]) => `${name} ${shown.settings[name]}`),
  ];
  const model = store.state.server ? store.state.server.model : "MODEL";
  setText(
    $("#flags"),
    `vllm serve ${model} \\\n  ${known
      .map(([, text]) => text)
      .filter(Boolean)
      .join(" \\\n  ")}`,
  );
  setText($("#lacks"), `vLLM lacks: ${lacks.join(", ")}.`);
}

async function act(call, done) {
  setText($("#note"), "…");
  try {
    shown = await call();
    build();
    setText($("#note"), done);
  } catch (error) {
    setText(
      $("#note"),
      error.status === 409 ? `${error.message} — somebody changed the settings meanwhile: reload to see them.` : error.message,
    );
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

$("#form").addEventListener("input", diff);
$("#form").addEventListener("submit", (event) => {
  event.preventDefault();
  act(() => patch("/api/scheduler", { ...changes(), version: shown.version }), "applied");
});
$("#revert").addEventListener("click", build);
for (const [button, text] of [["#copy", "#flags"], ["#copy-command", "#command"]])
  $(button).addEventListener("click", () =>
    navigator.clipboard.writeText($(text).textContent).catch(() => getSelection().selectAllChildren($(text))),
  );
loop.add(1000, (state) => {
  const version = state.server === null ? null : `${state.boot} ${state.server.settings_version} ${state.gauges.engine}`;
  if (version === lastVersion) return;
  lastVersion = version;
  if (shown === null || !edited()) load(); // an edit under way is not thrown away; the version check guards it
});
load();
createKeeping();
