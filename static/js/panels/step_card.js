// One step in full: who was picked, who was not, and why. The JSON of GET /api/steps/{boot}/{seq} in, nodes out; and the dialog that
// shows it, with `step=BOOT.SEQ` in the address for as long as it is open.

import { $, el, replace, setText, swatch } from "../dom.js";
import { get } from "../api.js";
import { blockersWords } from "../blocked.js";
import { int, ms, plural, requestUrl, shortId } from "../format.js";
import { REASONS, SHORT } from "../words.js";

const NAMES = 12;
const RECORD_MS = 200;

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
function stepRows(step) {
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

const named = () => /^(-?\d+)\.(\d+)$/.exec(new URLSearchParams(location.search).get("step")); // its boot and seq
let asked = ""; // the step that the dialog is to show
let pushed = false; // by a deed here, so that going back leads to where it was done

/** Opens the dialog #step on one step, as an address of its own. */
export function openStep(boot, seq) {
  const url = new URL(location.href);
  url.searchParams.set("step", `${boot}.${seq}`);
  history.pushState(null, "", url);
  pushed = true;
  follow();
}

/** The address rules: #step shows the step that it names, now and when the browser goes back or forth. */
export function followSteps() {
  $("#step").addEventListener("close", () => {
    asked = "";
    if (!named()) return;
    if (pushed) return history.back();
    const url = new URL(location.href);
    url.searchParams.delete("step");
    history.replaceState(null, "", url);
  });
  addEventListener("popstate", follow);
  follow();
}

function follow() {
  const found = named();
  if (!found) $("#step").close();
  else if (found[0] !== asked) show(...found);
}

/** What cannot be told is said in the dialog. */
async function show(name, boot, seq) {
  asked = name;
  const dialog = $("#step");
  const body = $(".body", dialog);
  setText($("h2", dialog), "Step");
  replace(body, el("p", { class: "empty" }, "Loading…"));
  if (!dialog.open) dialog.showModal();
  const [step, error] = await recorded(boot, seq, 5).then((found) => [found], (failed) => [null, failed]);
  if (name !== asked) return;
  if (step) setText($("h2", dialog), `Step ${int(step.step)}`);
  replace(body, step ? stepNodes(step) : el("p", { class: "error" }, error.message));
}

/** The step from the records, which are a moment behind. */
export async function recorded(boot, seq, tries = 20) {
  try {
    return await get(`/api/steps/${boot}/${seq}`);
  } catch (error) {
    if (error.status !== 404 || tries <= 1) throw error;
    await new Promise((resolve) => setTimeout(resolve, RECORD_MS));
    return recorded(boot, seq, tries - 1);
  }
}
