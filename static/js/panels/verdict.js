// Verdicts, states and finishes as tags: a word with a tone, never a colour alone.

import { el } from "../dom.js";
import { NONE } from "../format.js";

const VERDICT = { valid: "ok", invalid: "bad", generator_limited: "warn", host_limited: "warn" };
const FINISH = { stop: "ok", length: "ok", abort: "warn", timeout: "bad", rejected: "warn", error: "bad" };

export const verdictTag = (verdict) =>
  verdict ? el("span", { class: "tag", "data-tone": VERDICT[verdict] }, verdict.replace("_", " ")) : NONE;

export function outcomeTag(request) {
  if (request.state !== "finished") return el("span", { class: "tag" }, request.state);
  const text = request.detail ? `${request.finish}: ${request.detail}` : request.finish;
  return el("span", { class: "tag", "data-tone": FINISH[request.finish] }, text);
}
