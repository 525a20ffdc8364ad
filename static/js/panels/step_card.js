// One step in full: who was picked, who was not, and why. The JSON of GET /api/steps/{boot}/{seq} in, nodes out.

import { $, el, replace, setText, swatch } from "../dom.js";
import { get } from "../api.js";
import { blockersWords } from "../blocked.js";
import { int, ms, plural, requestUrl, shortId } from "../format.js";
import { REASONS, SHORT } from "../words.js";

const NAMES = 12;

function name(one) {
  if (!one.id) return el("span", {}, `number ${one.number}`);
  return el("span", {}, el("a", { class: "mono", href: requestUrl(one.id), title: one.id }, shortId(one.id)), ` (${one.tenant})`);
}

function list(rows, words, total = rows.length) {
  if (total === 0) return [el("span", { class: "mut" }, "nobody")];
  const shown = rows.slice(0, NAMES).flatMap((one, index) => [index ? ", " : "", name(one), words ? ` ${words(one)}` : ""]);
  return total > NAMES ? [...shown, ` and ${int(total - NAMES)} more`] : shown;
}

function admission(one) {
  const cached = one.cached_tokens ? `, ${plural(one.cached_tokens, "token")} cached` : "";
  const passed = one.overtaken ? `, overtaken by ${int(one.overtaken)}` : "";
  return `slot ${int(one.slot)}${one.resumed ? ", again" : ""}${cached}${passed}`;
}

function notPicked(step) {
  if (step.waiting === 0) return [el("span", { class: "mut" }, "nobody waits")];
  const parts = REASONS.filter((reason) => step.waiting_by_reason[reason]).flatMap((reason, index) => [
    index ? ", " : "",
    el("span", { class: "reason" }, swatch(`r-${reason}`), `${int(step.waiting_by_reason[reason])} for ${SHORT[reason]}`),
  ]);
  return [`${int(step.waiting)}: `, ...parts];
}

/** Rows [label, nodes] of a step. */
export function stepRows(step) {
  const unused = step.token_budget - step.prefill_tokens - step.decode_tokens;
  const spent = `${int(step.prefill_tokens)} prefill, ${int(step.decode_tokens)} decode`;
  const chunk = (one) => `${plural(one.tokens, "token")}${one.emitted ? ", then its next token" : ""}`;
  const rows = [
    ["Tokens", [`${spent}, ${int(unused)} of ${int(step.token_budget)} unused · ${ms(step.ms)}`]],
    ["Admitted", list(step.admitted, admission)],
    ["Prefill", list(step.chunks, chunk, step.n_chunks)],
    ["Decode", list(step.decodes, null, step.n_decodes)],
    ["Not picked", notPicked(step)],
  ];
  if (step.preempted.length)
    rows.push(["Preempted", list(step.preempted, (one) => `lost ${plural(one.computed_tokens_lost, "computed token")}`)]);
  if (step.finished.length) rows.push(["Finished", list(step.finished, (one) => one.reason)]);
  rows.push(["Why", [why(step)]]);
  if (step.next) rows.push(["Next", [name(step.next)]]);
  return rows;
}

function why(step) {
  if (step.binding === "step" && step.waiting)
    return "nothing bound it: all of the open queue were taken in, and who waits came later or has a cause of its own";
  if (step.binding === "step") return "nothing bound it: nobody was left waiting when it was planned";
  const held = blockersWords(step.blockers);
  return `bound by ${SHORT[step.binding]}${held ? `: ${held}` : ""}`;
}

export function stepNodes(step) {
  return el("dl", { class: "step" }, ...stepRows(step).flatMap(([label, nodes]) => [el("dt", {}, label), el("dd", {}, ...nodes)]));
}

/** Opens the dialog #step on one step; what cannot be told is said there. */
export async function openStep(boot, seq) {
  const dialog = $("#step");
  const body = $(".body", dialog);
  setText($("h2", dialog), "Step");
  replace(body, el("p", { class: "empty" }, "Loading…"));
  dialog.showModal();
  try {
    const step = await get(`/api/steps/${boot}/${seq}`);
    setText($("h2", dialog), `Step ${int(step.step)}`);
    replace(body, stepNodes(step));
  } catch (error) {
    replace(body, el("p", { class: "error" }, error.message));
  }
}
