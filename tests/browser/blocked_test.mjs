// The law of the words about waiting, and of what is folded from a request for its page, run by node (test_scripts.py starts it).

import assert from "node:assert/strict";
import test from "node:test";

import { blockersWords, booked, byReason, merged, sharesWords } from "../../static/js/blocked.js";
import { freezable, frozenWords } from "../../static/js/freeze.js";
import * as format from "../../static/js/format.js";
import { counts } from "../../static/js/panels/tenants_card.js";
import { binned } from "../../static/js/panels/gap_bins.js";
import { clientLane, lostWords, spans } from "../../static/js/panels/waterfall.js";

const held = (...pairs) => pairs.map(([tenant, amount, prefill]) => ({ tenant, amount, ...(prefill === undefined ? {} : { prefill }) }));
const slots = { reason: "slots", unit: "slots", limit: 16, holders: held(["b", 12], ["a", 3]), rest: 1 };
const blocks = { reason: "kv_blocks", unit: "blocks", limit: 40, holders: held(["b", 31]), rest: 0, needed: 31, head: 7, free: 9, kept: 2 };
const quota = { reason: "quota", unit: "requests", limit: 4, holders: held(["a", 4]), rest: 0, needed: 900, tokens: 3200, max_tokens: 0 };

test("references beyond the blocks in use are said to be shared ones", () => {
  const shared = { ...blocks, limit: 2588, free: 216, kept: 0, holders: held(["b", 2145], ["a", 605]) };
  assert.equal(
    blockersWords(shared),
    "the next in line needs 31 KV blocks, 216 free; held: tenant b 2,145, a 605" +
      " (378 more than are in use: a block that requests share counts for each)",
  );
});

test("who held what is said with all amounts, in the unit of the reason", () => {
  assert.equal(blockersWords(slots), "16 of 16 slots: tenant b 12, a 3, others 1");
  assert.equal(blockersWords(blocks), "the next in line needs 31 KV blocks, 9 free, 2 kept for the running; held: tenant b 31");
  assert.equal(blockersWords(blocks, 7), "it needs 31 KV blocks, 9 free, 2 kept for the running; held: tenant b 31");
  assert.match(blockersWords({ ...blocks, head: null, kept: 0 }), /^memory ran out for the running: 9 free;/);
  assert.equal(blockersWords(quota), "tenant a runs 4 of its 4");
  assert.equal(
    blockersWords({ ...quota, limit: 0, max_tokens: 4000 }),
    "tenant a holds 3,200 of its 4,000 tokens, this one needs 900",
  );
  const tokens = { reason: "token_budget", unit: "tokens", limit: 256, holders: held(["b", 200, 190], ["a", 56, 0]), rest: 0 };
  assert.equal(blockersWords(tokens), "256 of 256 tokens of the step: tenant b 200 (190 prefill), a 56");
  assert.equal(blockersWords(null), "");
});

const stretch = (from_ms, to_ms, reason, blockers, sequence = "r") => ({ sequence, from_ms, to_ms, reason, blockers });
const WAITED = [
  stretch(0, 2, "step", null),
  stretch(2, 4, "slots", { ...slots, holders: held(["a", 16]), rest: 0 }),
  stretch(4, 10, "slots", slots),
  stretch(10, 12, "quota", quota),
  stretch(12, null, "slots", slots),
];

test("neighbouring stretches of a reason become one, with the set that stood longest; the last may go on", () => {
  const found = merged(WAITED, 20);
  assert.deepEqual(
    found.map((one) => [one.reason, one.from_ms, one.to_ms, one.sets, one.open]),
    [
      ["step", 0, 2, 1, false],
      ["slots", 2, 10, 2, false],
      ["quota", 10, 12, 1, false],
      ["slots", 12, 20, 1, true],
    ],
  );
  assert.equal(found[1].longest, slots);
  assert.equal(merged([stretch(0, 1, "slots", slots), stretch(0, 1, "slots", slots, "q")], 1).length, 2);
});

test("sums by reason are those of the stretches, their holders weighted by time, and what was booked is exact", () => {
  const sums = byReason(WAITED, 20);
  assert.deepEqual(
    sums.map((one) => [one.reason, one.ms, one.stretches]),
    [
      ["slots", 16, 3],
      ["step", 2, 1],
      ["quota", 2, 1],
    ],
  );
  const [all] = sums; // b: 12 slots for 14 ms, a: 16 for 2 and 3 for 14, others: 1 for 14; 16 slots for 16 ms
  assert.deepEqual(
    all.shares.map(([tenant, share]) => [tenant, Math.round(share * 256)]),
    [
      ["b", 168],
      ["a", 74],
      [null, 14],
    ],
  );
  assert.equal(sharesWords(all.shares), "held by tenant b 65.6 %, a 28.9 %, others 5.5 %");
  assert.deepEqual(
    booked(sums, { slots: 1, paused: 15, step: 0 }).map((one) => [one.reason, one.ms, one.shares.length]),
    [
      ["paused", 15, 0],
      ["slots", 1, 3],
    ],
  );
  assert.equal(booked(sums, {}), sums);
});

test("a wait is drawn in the order of its stretches, and what a preemption cost is said", () => {
  const slices = { step: [], t_ms: [], ms: [], tokens: [], kind: [], emitted: [] };
  const event = (kind, t_ms, data = {}) => ({ kind, t_ms, data, sequence: "r" });
  const events = [
    event("RequestQueued", 1),
    event("RequestScheduled", 20, { cached_tokens: 0 }),
    event("RequestPreempted", 30, { computed_tokens_lost: 17 }),
    event("RequestScheduled", 40, { cached_tokens: 8 }),
    event("RequestFinished", 50),
  ];
  const found = spans({ waits: {}, waited: WAITED.slice(1), sequences: 1, slices }, events, 50);
  assert.deepEqual(
    found.slice(0, 4).map((span) => [span.kind, span.from, span.to]),
    [
      ["queued", 0, 2],
      ["r-slots", 2, 10],
      ["r-quota", 10, 12],
      ["r-slots", 12, 20],
    ],
  );
  assert.equal(lostWords(events[2], events.slice(3)), "preempted: 17 computed tokens lost, 8 found again in the cache, 9 recomputed");
  assert.equal(lostWords(events[2], []), "preempted: 17 computed tokens lost");
});

test("the client's lane is on our clock, or says that it is not", () => {
  const seen = { sent_ms: 100, first_ms: 120, last_ms: 150, ttft_ms: 20, e2e_ms: 50, clock: null };
  assert.match(clientLane(seen).words, /aligned at sending/);
  assert.deepEqual(
    clientLane(seen).spans.map(({ from, to }) => [from, to]),
    [
      [0, 20],
      [20, 50],
    ],
  );
  const clock = { due_ms: -3, sent_ms: -1, first_ms: 19, last_ms: 49, error_ms: 0.3 };
  const lane = clientLane({ ...seen, clock });
  assert.deepEqual([lane.words, lane.spans[0].from, lane.spans[0].to], ["on our clock, ± 0.300 ms", -3, -1]);
  assert.equal(clientLane(null), null);
  assert.equal(clientLane({ ...seen, first_ms: null }), null);
});

test("above 1,000 gaps a bar is the longest of its bin, and no gap is lost from the maximum", () => {
  const ms = Array.from({ length: 2500 }, (_, i) => (i === 1234 ? 99 : 1));
  const gaps = { ms, step: ms.map((_, i) => i + 10), t_ms: ms.map((_, i) => i) };
  const { bars, size } = binned(gaps);
  assert.deepEqual([size, bars.length], [3, 834]);
  assert.deepEqual(
    bars.filter((bar) => bar.ms === 99).map((bar) => [bar.token, bar.step]),
    [[1236, 1244]],
  );
  assert.equal(binned({ ms: [1, 2], step: [1, 2], t_ms: [1, 2] }).bars.length, 2);
});

test("tenants: who runs, who waits and since when, from the open bars", () => {
  const bar = (tenant, phase, t0, t1 = null) => ({ tenant, phase, t0, t1 });
  const bars = [bar("a", "decode", 0), bar("b", "queued", 10), bar("b", "queued", 30), bar("b", "decode", 0, 5), bar("a", "preempted", 4)];
  assert.deepEqual(counts(bars, 100), [
    { tenant: "a", running: 1, waiting: 0, preempted: 1, longest: null },
    { tenant: "b", running: 0, waiting: 2, preempted: 0, longest: 90 },
  ]);
});

test("a frozen view stands still while the store goes on, and says how far that is", () => {
  const listeners = [];
  const store = { state: { boot: 1, steps: { step: [1, 2] } }, subscribe: (listener) => listeners.push(listener) };
  const view = freezable(store);
  const heard = [];
  view.subscribe((state) => heard.push(state.steps.step.at(-1)));
  view.freeze(true);
  store.state.steps.step.push(3); // in place, as the reducer does
  listeners.forEach((listener) => listener(store.state));
  assert.deepEqual([view.state.steps.step.at(-1), heard], [2, [2]]);
  assert.equal(frozenWords(view, store), "frozen at step 2 · 1 step since");
  view.freeze(false);
  assert.deepEqual([view.state.steps.step.at(-1), heard, frozenWords(view, store)], [3, [2, 3], null]);
});

test("instants in UTC are those of the reader's zone, moved", () => {
  format.setUtc(true);
  assert.equal(format.when("2026-03-01T10:00:00+02:00"), "2026-03-01 08:00:00");
  assert.equal(format.zone(), "UTC");
  format.setUtc(false);
});
