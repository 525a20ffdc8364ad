// Fields made from a table of settings or parameters: typed inputs with range, unit and help. Sends nothing.

import { breakable, coded, el, replace } from "../dom.js";
import { valueText } from "../format.js";

const PARAMS = "policy_params.";

/** One field. spec: { name, type, low, high, choices, help, unit }. Returns { node, read } where read() gives undefined if unset. */
export function field(spec, value, { optional = false, restart = false } = {}) {
  const input = makeInput(spec, value, optional);
  input.name = spec.name;
  if (restart) input.title = "read at the server's start: type what you want, the command is shown";
  const range = rangeText(spec);
  const head = el("span", {}, el("b", {}, ...breakable(spec.name)), restart ? " · restart" : "");
  const hint = [spec.help, range].filter(Boolean).join(" · ");
  return {
    node: el("label", { class: restart ? "field restart" : "field" }, head, input, el("span", { class: "hint" }, ...coded(hint))),
    input,
    read: () => read(input, spec),
  };
}

/** One parameter of a policy, of which `values` (by name) are in effect; `given`: what a link fills in, as text. */
export function paramField(spec, values, { given = {}, optional = false } = {}) {
  const family = spec.name.endsWith(".*");
  const text = (from) => (family ? lineOf(spec, from) : from[spec.name]);
  const help = family ? `${spec.help}; as NAME=NUMBER, NAME=NUMBER` : spec.help;
  const type = family ? "str" : spec.whole ? "int" : "float";
  const made = field({ ...spec, name: PARAMS + spec.name, type, help }, text(values) ?? spec.default, { optional });
  if (text(given)) made.input.value = text(given);
  return family ? { ...made, read: () => familyOf(spec, made.input.value) } : { ...made, read: () => alone(spec, made.read()) };
}

const alone = (spec, value) => (value === undefined ? {} : { [spec.name]: value });

/** Numbers of one family, `weight.*`, in one line: "ann=2, bob=0.5". */
function lineOf({ name: family }, values) {
  const stem = family.slice(0, -1);
  const pairs = Object.entries(values).filter(([name]) => name.startsWith(stem));
  return pairs.map(([name, value]) => `${name.slice(stem.length).replaceAll("%", "%25").replaceAll(",", "%2C")}=${value}`).join(", ");
}

/** What such a line says: { "weight.ann": 2, "weight.bob": 0.5 }. */
function familyOf({ name: family }, line) {
  const pairs = line.split(",").filter((pair) => pair.trim() !== "");
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.lastIndexOf("=");
      const name = (at < 0 ? pair : pair.slice(0, at)).trim().replaceAll("%2C", ",").replaceAll("%25", "%");
      return [family.slice(0, -1) + name, at < 0 ? null : Number(pair.slice(at + 1))];
    }),
  );
}

function makeInput(spec, value, optional) {
  if (spec.type === "bool" && !optional) {
    const box = el("input", { type: "checkbox" });
    box.checked = value === true;
    return box;
  }
  const choices = spec.type === "bool" ? ["true", "false"] : spec.choices;
  if (choices && choices.length) {
    const options = [
      ...(optional ? [el("option", { value: "" }, `as it is: ${valueText(value)}`)] : []),
      ...choices.map((name) => el("option", { value: name }, name)),
    ];
    const select = el("select", {}, ...options);
    select.value = optional ? "" : String(value);
    return select;
  }
  const numeric = spec.type === "int" || spec.type === "float";
  const bound = (limit) => (limit === null || limit === undefined ? null : limit);
  const step = spec.type === "int" ? 1 : "any";
  const input = numeric
    ? el("input", { type: "number", min: bound(spec.low), max: bound(spec.high), step })
    : el("input", { type: "text", maxlength: 200 });
  if (optional) input.placeholder = value === undefined ? "" : valueText(value);
  else input.value = value === null || value === undefined ? "" : String(value);
  return input;
}

function rangeText({ low, high, unit, type }) {
  if (type === "bool") return "";
  const known = (limit) => limit !== null && limit !== undefined;
  const range =
    known(low) && known(high) ? `${valueText(low)} to ${valueText(high)}` : known(low) ? `from ${valueText(low)}` : "";
  return [range, unit].filter(Boolean).join(" ");
}

function read(input, spec) {
  if (input.type === "checkbox") return input.checked;
  if (input.value === "") return undefined;
  if (spec.type === "bool") return input.value === "true";
  return spec.type === "int" || spec.type === "float" ? Number(input.value) : input.value;
}

/** Live settings as optional fields, those of the policy's parameters behind it: left empty, a setting stays as it is. `given`:
    what a link fills in, as text by name. Returns { typed, asked }: what is filled in, and what is to be asked of the server. */
export function optionalSettings(box, { table, settings, policies }, given) {
  const specs = table.filter((spec) => spec.live && spec.type !== "dict");
  const choices = policies.map((each) => each.name);
  const fields = specs.map((spec) => [spec.name, field(spec.name === "policy" ? { ...spec, choices } : spec, settings[spec.name], { optional: true })]);
  for (const [name, one] of fields) if (name in given) one.input.value = given[name];
  const policy = fields.find(([name]) => name === "policy")[1];
  const kept = () => (policy.read() === undefined ? settings.policy_params : {}); // another policy begins with its defaults
  let params = [];
  const build = (values) => {
    const name = policy.read() ?? settings.policy;
    const found = policies.find((each) => each.name === name);
    for (const one of params) one.node.remove();
    params = (found ? found.params : []).map((spec) => paramField(spec, kept(), { given: values, optional: true }));
    policy.node.after(...params.map((one) => one.node));
  };
  const typed = () => {
    const found = Object.fromEntries(fields.map(([name, one]) => [name, one.read()]).filter(([, value]) => value !== undefined));
    const own = Object.assign({}, ...params.map((one) => one.read()));
    return Object.keys(own).length ? { ...found, policy_params: own } : found;
  };
  const asked = () => {
    const { policy_params: own, ...found } = typed();
    return own ? { ...found, policy_params: { ...kept(), ...own } } : found;
  };
  const left = table.filter((spec) => !spec.live).map((spec) => spec.name);
  const where = ["Read at the server's start, so not here: ", left.join(", "), " (", el("a", { href: "/policy" }, "how"), ")."];
  replace(box, ...fields.map(([, one]) => one.node), left.length ? el("p", { class: "hint wide" }, ...where) : null);
  policy.input.addEventListener("input", () => build({})); // before the form hears of it
  const ofPolicy = Object.entries(given).filter(([name]) => name.startsWith(PARAMS));
  build(Object.fromEntries(ofPolicy.map(([name, value]) => [name.slice(PARAMS.length), value])));
  return { typed, asked };
}
