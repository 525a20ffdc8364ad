// Verdicts, states and finishes as tags: a word with a tone, never a colour alone.

import { el } from "../dom.js";
import { NONE } from "../format.js";

const VERDICT = { valid: "ok", invalid: "bad", generator_limited: "warn", host_limited: "warn" };
const FINISH = { stop: "ok", length: "ok", abort: "warn", timeout: "bad", rejected: "warn", error: "bad" };

const MEANS = {
  length: "max_tokens was reached",
  stop: "the model ended its answer",
  abort: "its client cancelled it or went away",
  timeout: "it took longer than allowed",
  rejected: "it was refused",
};

export const verdictTag = (verdict, title) =>
  verdict ? el("span", { class: "tag", "data-tone": VERDICT[verdict], title }, verdict.replace("_", " ")) : NONE;

export function outcomeTag(request) {
  if (request.state !== "finished") return el("span", { class: "tag" }, request.state);
  const text = request.detail ? `${request.finish}: ${request.detail}` : request.finish;
  return el("span", { class: "tag", "data-tone": FINISH[request.finish], title: MEANS[request.finish] }, text);
}
