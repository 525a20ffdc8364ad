// The reasons of waiting in words. Pure. The names are the scheduler's; each word says what would have to change.

import { clock, int } from "./format.js";

export const REASONS = [
  "step",
  "slots",
  "token_budget",
  "kv_blocks",
  "prefill_cap",
  "quota",
  "static_batch",
  "engine_down",
  "paused",
];

export const SHORT = {
  step: "running step",
  slots: "slots",
  token_budget: "token budget",
  kv_blocks: "KV blocks",
  prefill_cap: "prefill cap",
  quota: "quota",
  static_batch: "static batch",
  engine_down: "engine down",
  paused: "paused",
};

const WHY = {
  step: () => "it arrived while a step was running, or its message was on its way",
  slots: (g) => `all ${int(g.max_num_seqs)} places among the running are taken`,
  token_budget: (g) => `the step's ${int(g.token_budget)} tokens were spent on others`,
  kv_blocks: () => "the next in line needs more free memory",
  prefill_cap: () => "enough prompts are computed in this step",
  quota: () => "its tenant has used its share",
  static_batch: () => "a batch is open, and nobody joins it",
  engine_down: () => "the engine died; it was submitted again",
  paused: () => "an operator holds the engine",
};

/** "KV blocks: the next in line needs more free memory". */
export function reasonWords(reason, gauges) {
  return WHY[reason] ? `${SHORT[reason]}: ${WHY[reason](gauges)}` : reason;
}

const STATE = {
  slots: (g) =>
    g.running < g.max_num_seqs
      ? `all ${int(g.max_num_seqs)} were taken at the last step`
      : `${int(g.running)} of ${int(g.max_num_seqs)} are taken`,
  kv_blocks: (g) => `${int(g.blocks_total - g.blocks_free)} of ${int(g.blocks_total)} in use`,
  token_budget: (g) => `${int(g.token_budget)} tokens a step, all spent`,
};
const TARGET = { step: "the running step to end", engine_down: "the engine to come back", paused: "somebody to resume" };

function target(reason, gauges) {
  const state = STATE[reason] ? STATE[reason](gauges) : "";
  return [TARGET[reason] || SHORT[reason], state];
}

/** "running 0:12 of 0:38"; the time it drains is no part of the time it sends. */
export function phaseWords(run) {
  const { status, elapsed_s: elapsed, duration_s: planned } = run;
  if (status !== "draining") return `${status} ${clock(elapsed)}${planned ? ` of ${clock(planned)}` : ""}`;
  return planned && elapsed >= planned
    ? `sent for ${clock(planned)}, draining for ${clock(elapsed - planned)}`
    : `draining, ${clock(elapsed)} since its start`;
}

/** One sentence: what binds now. `reason` colours it. earlier: the records hold what ran before this start. */
export function sentence(gauges, earlier = false) {
  if (!gauges) return { text: "Connecting…", reason: null };
  const text = gauges.engine_text;
  if (gauges.engine === "loading") return { text: `The engine is loading${text ? `: ${text}` : ""}.`, reason: "paused" };
  if (gauges.engine === "down")
    return { text: "The engine is down; what waits will be served when it is back.", reason: "engine_down" };
  const busy = `${int(gauges.running)} of ${int(gauges.max_num_seqs)} slots run`;
  if (gauges.waiting > 0) return waitingSentence(gauges);
  if (gauges.engine === "paused")
    return {
      text: `Paused: nobody waits, ${int(gauges.running)} of ${int(gauges.max_num_seqs)} slots are held.`,
      reason: "paused",
    };
  if (gauges.preempted > 0)
    return { text: `Nobody new waits; ${int(gauges.preempted)} preempted want their KV blocks back.`, reason: "kv_blocks" };
  if (gauges.running === 0)
    return {
      text: gauges.finished
        ? `Idle: nothing waits, nothing runs. ${int(gauges.finished)} finished so far.`
        : `Ready: nothing has run ${earlier ? "since this start" : "yet"}.`,
      reason: null,
    };
  return {
    text: `Nobody waits: ${busy}, ${int(gauges.blocks_total - gauges.blocks_free)} of ${int(gauges.blocks_total)} KV blocks in use.`,
    reason: null,
  };
}

function waitingSentence(gauges) {
  const counts = Object.entries(gauges.waiting_by_reason)
    .filter(([, count]) => count > 0)
    .sort((a, b) => b[1] - a[1]);
  const verb = gauges.waiting === 1 ? "waits" : "wait";
  if (counts.length === 0) return { text: `${int(gauges.waiting)} ${verb}.`, reason: null };
  const [first] = counts[0];
  const [what, state] = target(first, gauges);
  if (counts.length === 1)
    return { text: `${int(gauges.waiting)} ${verb}, for ${what}${state ? `: ${state}` : ""}.`, reason: first };
  const parts = counts.slice(0, 3).map(([reason, count], index) => {
    const [name, more] = target(reason, gauges);
    return `${int(count)} for ${name}${index === 0 && more ? ` (${more})` : ""}`;
  });
  return { text: `${int(gauges.waiting)} ${verb}: ${parts.join(", ")}.`, reason: first };
}
