// What happened in a stretch of time: requests, tokens, queued time, step time, budget. Exact, from the rows that are here.

import { firstStep } from "./steps.js";

const EPSILON = 1e-6; // seconds: what a link rounds to

/** Exact: linear interpolation between the two nearest. */
export function percentile(values, share) {
  if (values.length === 0) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const place = (sorted.length - 1) * share;
  const low = Math.floor(place);
  return sorted[low] + (sorted[Math.min(low + 1, sorted.length - 1)] - sorted[low]) * (place - low);
}

/** Steps count by their end, in (from, to]; a request counts if any of it lies within. queued and preempted: seconds, cut at the edges. */
export function summarise(bars, steps, [from, to], now) {
  const ids = new Set();
  const spent = [0, 0, 0, 0];
  for (const i of bars.within(from, to, now)) {
    ids.add(bars.id[i].split("/")[0]);
    spent[bars.phase[i]] += Math.max(0, Math.min(to, bars.end(i, now)) - Math.max(from, bars.t0[i]));
  }
  let [prefill, decode, budget] = [0, 0, 0];
  const times = [];
  for (let i = firstStep(steps, from + EPSILON); i < steps.t.length && steps.t[i] <= to + EPSILON; i += 1) {
    prefill += steps.prefill[i];
    decode += steps.decode[i];
    budget += steps.budget[i];
    times.push(steps.ms[i]);
  }
  return {
    requests: ids.size,
    prefill,
    decode,
    queued: spent[0],
    preempted: spent[3],
    steps: times.length,
    stepP95: percentile(times, 0.95),
    used: budget ? (prefill + decode) / budget : null,
  };
}
