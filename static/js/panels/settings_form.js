// Fields made from a table of settings or parameters: typed inputs with range, unit and help. Sends nothing.

import { el, replace } from "../dom.js";
import { valueText } from "../format.js";

/** One field. spec: { name, type, low, high, choices, help, unit }. Returns { node, read } where read() gives undefined if unset. */
export function field(spec, value, { optional = false, restart = false } = {}) {
  const input = makeInput(spec, value, optional);
  input.name = spec.name;
  if (restart) input.title = "read at the server's start: type what you want, the command is shown";
  const range = rangeText(spec);
  const head = el("span", {}, el("b", {}, ...breakable(spec.name)), restart ? " · restart" : "");
  const hint = [spec.help, range].filter(Boolean).join(" · ");
  return {
    node: el("label", { class: restart ? "field restart" : "field" }, head, input, el("span", { class: "hint" }, hint)),
    input,
    read: () => read(input, spec),
  };
}

const LINK = new URLSearchParams(location.search); // as the page was opened: it rewrites its address later

/** A long name may break after "_". */
const breakable = (name) => name.split(/(?<=_)/).flatMap((part) => [part, el("wbr")]);

/** Numbers of one family, `weight.*`, in one line: "ann=2, bob=0.5". read() gives { "weight.ann": 2, "weight.bob": 0.5 }. */
export function familyField(spec, values) {
  const stem = spec.name.slice(0, -1);
  const pairs = Object.entries(values).filter(([name]) => name.startsWith(stem));
  const line = pairs.map(([name, value]) => `${name.slice(stem.length).replaceAll("%", "%25").replaceAll(",", "%2C")}=${value}`);
  const help = `${spec.help}; as NAME=NUMBER, NAME=NUMBER`;
  const made = field({ ...spec, name: `policy_params.${spec.name}`, type: "str", help }, line.join(", "));
  const read = () =>
    Object.fromEntries(
      made.input.value
        .split(",")
        .filter((pair) => pair.trim() !== "")
        .map((pair) => {
          const at = pair.lastIndexOf("=");
          const name = (at < 0 ? pair : pair.slice(0, at)).trim().replaceAll("%2C", ",").replaceAll("%25", "%");
          return [stem + name, at < 0 ? null : Number(pair.slice(at + 1))];
        }),
    );
  return { ...made, read };
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

/** Live settings as optional fields: left empty, a setting stays as it is; a link may fill `scheduler.NAME`. Returns changes(). */
export function optionalSettings(box, table, settings, policies) {
  const specs = table.filter((spec) => spec.live && spec.type !== "dict");
  const fields = specs.map((spec) => [
    spec.name,
    field(spec.name === "policy" ? { ...spec, choices: policies } : spec, settings[spec.name], { optional: true }),
  ]);
  for (const [name, one] of fields) {
    const wanted = LINK.get(`scheduler.${name}`);
    if (wanted !== null) one.input.value = wanted;
    if (wanted !== null) box.closest("details").open = true;
  }
  const left = table.filter((spec) => !spec.live).map((spec) => spec.name);
  const where = ["Read at the server's start, so not here: ", left.join(", "), " (", el("a", { href: "/policy" }, "how"), ")."];
  replace(box, ...fields.map(([, one]) => one.node), left.length ? el("p", { class: "hint wide" }, ...where) : null);
  return () => Object.fromEntries(fields.map(([name, one]) => [name, one.read()]).filter(([, value]) => value !== undefined));
}
