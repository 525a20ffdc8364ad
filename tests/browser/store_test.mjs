// The law of the reducer and of the words, run by node (test_scripts.py starts it).

import assert from "node:assert/strict";
import test from "node:test";

import * as format from "../../static/js/format.js";
import { placeWords } from "../../static/js/panels/settings_changes.js";
import { spans } from "../../static/js/panels/waterfall.js";
import { createStore, initialState, isHole, reduce, STEPS_KEPT, wanted } from "../../static/js/store.js";
import { phaseWords, reasonWords, sentence } from "../../static/js/words.js";

const NAMES = [
  "seq",
  "step",
  "t",
  "ms",
  "prefill",
  "decode",
  "budget",
  "binding",
  "waiting",
  "running",
  "kv_used",
  "preempted",
  "slots",
];

function stepColumns(from, count, byReason = {}) {
  const seqs = Array.from({ length: count }, (_, i) => from + i);
  const columns = Object.fromEntries(NAMES.map((name) => [name, seqs.map((seq) => (name === "binding" ? "slots" : seq))]));
  return {
    ...columns,
    by_reason: Object.fromEntries(Object.entries(byReason).map(([name, value]) => [name, seqs.map(() => value)])),
  };
}

function barColumns(rows) {
  const names = ["id", "number", "slot", "phase", "t0", "t1", "tenant", "reason"];
  return Object.fromEntries(names.map((name, index) => [name, rows.map((row) => row[index])]));
}

const gauges = (more = {}) => ({
  engine: "up",
  engine_text: "",
  waiting: 0,
  running: 0,
  preempted: 0,
  now_ms: 1000,
  dashboards: 1,
  ...more,
});

function snapshot(more = {}) {
  const empty = barColumns([]);
  const plain = {
    boot: 1,
    seq: 10,
    wall_ms: 0,
    server: { model: "m" },
    gauges: gauges(),
    steps: stepColumns(1, 10),
    segments: empty,
  };
  return { ...plain, waiting_now: [], markers: [], run: null, ...more };
}

function frame(from, to, more = {}) {
  const plain = {
    boot: 1,
    from,
    to,
    gauges: gauges({ running: 1 }),
    steps: stepColumns(from + 1, to - from),
    changes: barColumns([]),
  };
  return { ...plain, waiting_now: [], markers: [], ...more };
}

const start = (more) => reduce(initialState(), { type: "snapshot", data: snapshot(more) });
const next = (state, data) => reduce(state, { type: "frame", data });

test("steps from the records, which do not tell the slots, stand beside those that do", () => {
  const state = { ...start({ steps: stepColumns(11, 2) }), gap: { missed: 5, filled: 0, newest: 12 } };
  const { slots: _, ...steps } = stepColumns(9, 2);
  const joined = reduce(state, { type: "older", boot: 1, steps });
  assert.deepEqual(joined.steps.slots, [null, null, 11, 12]);
});

test("what a run asked for was changed at its start, also when that was a moment before", () => {
  for (const at_s of [-1.2, -0.01, 0, 0.04]) assert.equal(placeWords({ name: "peak", at_s }), "peak, at its start");
  assert.equal(placeWords({ name: "peak", at_s: 12.345 }), "peak, 12.3 s");
});

test("frames after a snapshot continue it", () => {
  const state = next(next(start(), frame(10, 14)), frame(14, 15));
  assert.equal(state.seq, 15);
  assert.deepEqual(
    state.steps.seq,
    Array.from({ length: 15 }, (_, i) => i + 1),
  );
});

test("a hole is seen and leaves the state as it was", () => {
  const state = start();
  assert.ok(isHole(state, frame(12, 14)));
  assert.ok(isHole(state, { ...frame(10, 12), boot: 2 }));
  assert.equal(next(state, frame(12, 14)), state);
});

test("an answer that overlaps adds nothing twice", () => {
  const state = next(start(), frame(4, 12));
  assert.deepEqual(
    state.steps.seq,
    Array.from({ length: 12 }, (_, i) => i + 1),
  );
});

test("a snapshot of another boot replaces everything", () => {
  const state = reduce(next(start(), frame(10, 20)), {
    type: "snapshot",
    data: snapshot({ boot: 2, seq: 3, steps: stepColumns(1, 3) }),
  });
  assert.deepEqual([state.boot, state.seq, state.steps.seq.length], [2, 3, 3]);
});

test("the ring keeps the last steps, and reasons stay aligned with them", () => {
  let state = start();
  for (let at = 10; at < 2000; at += 50) {
    state = next(state, {
      ...frame(at, at + 50),
      steps: stepColumns(at + 1, 50, at % 200 < 100 ? { slots: at } : { kv_blocks: at }),
    });
  }
  assert.equal(state.steps.seq.length, STEPS_KEPT);
  for (const column of [...NAMES.map((name) => state.steps[name]), ...Object.values(state.steps.by_reason)]) {
    assert.equal(column.length, STEPS_KEPT);
  }
  const { slots, kv_blocks: blocks } = state.steps.by_reason;
  assert.ok(slots.every((count, i) => (count === 0) !== (blocks[i] === 0)));
});

test("a bar is closed by a later row of the same request, phase and start", () => {
  const open = start({ segments: barColumns([["r", 7, 0, "decode", 5, null, "a", null]]) });
  const state = next(open, frame(10, 11, { changes: barColumns([["r", 7, 0, "decode", 5, 9, "a", "stop"]]) }));
  assert.deepEqual(
    [...state.bars.values()].map((bar) => [bar.t1, bar.reason]),
    [[9, "stop"]],
  );
});

test("bars that ended over a minute ago go, open ones stay", () => {
  const rows = [
    ["r", 1, 0, "decode", 0, 5, "a", "stop"],
    ["q", 2, 1, "decode", 0, null, "a", null],
  ];
  const state = next(start({ segments: barColumns(rows) }), frame(10, 11, { gauges: gauges({ running: 1, now_ms: 61_000 }) }));
  assert.deepEqual(
    [...state.bars.values()].map((bar) => bar.id),
    ["q"],
  );
});

test("a snapshot that does not join leaves a gap, which the records fill from its newest end", () => {
  const before = start();
  const later = snapshot({ seq: 900, steps: stepColumns(501, 400) });
  assert.deepEqual(wanted(before, later), { boot: 1, from: 11, to: 500 });
  const state = reduce(before, { type: "snapshot", data: later });
  assert.deepEqual(state.gap, { missed: 490, filled: 0, newest: 900 });
  const behind = reduce(state, { type: "older", boot: 1, steps: stepColumns(11, 480) });
  assert.equal(behind, state, "records that do not reach the snapshot yet leave no hole");
  const whole = reduce(state, { type: "older", boot: 1, steps: stepColumns(11, 490, { slots: 3 }) });
  assert.deepEqual(
    whole.steps.seq,
    Array.from({ length: STEPS_KEPT }, (_, i) => 301 + i),
  );
  assert.equal(whole.gap.filled, 200);
  assert.deepEqual([whole.steps.by_reason.slots.length, whole.steps.by_reason.slots[0], whole.steps.by_reason.slots.at(-1)], [600, 3, 0]);
  assert.deepEqual(next(whole, frame(900, 901)).steps.seq.at(-1), 901);
});

test("no gap: the same place, a new life, or a page that had nothing", () => {
  const again = snapshot({ seq: 12, steps: stepColumns(3, 10) });
  assert.equal(wanted(start(), again), null);
  assert.equal(reduce(start(), { type: "snapshot", data: again }).gap, null);
  assert.equal(wanted(start(), snapshot({ boot: 2, steps: stepColumns(500, 10) })), null);
  assert.equal(wanted(initialState(), snapshot({ steps: stepColumns(500, 10) })), null);
  const full = snapshot({ seq: 2000, steps: stepColumns(1401, 600) });
  assert.equal(wanted(start(), full), null);
  assert.equal(reduce(start(), { type: "snapshot", data: full }).gap.missed, 1390);
  const older = { type: "older", boot: 2, steps: stepColumns(1, 3) };
  assert.equal(reduce(start(), older).steps.seq.length, 10);
});

test("why the server refused is kept until it does not", () => {
  const refused = reduce(start(), { type: "link", link: "disconnected", why: "full" });
  assert.deepEqual([refused.link, refused.linkWhy], ["disconnected", "full"]);
  assert.equal(reduce(refused, { type: "link", link: "disconnected", why: "full" }), refused);
  assert.equal(next(refused, frame(10, 11)).linkWhy, "");
});

test("a heartbeat at rest changes nothing, so nothing is drawn", () => {
  const store = createStore();
  store.dispatch({ type: "snapshot", data: snapshot() });
  let calls = 0;
  store.subscribe(() => (calls += 1));
  store.dispatch({ type: "frame", data: frame(10, 10, { gauges: gauges({ now_ms: 9000, dashboards: 3 }) }) });
  assert.equal(calls, 0);
  store.dispatch({ type: "frame", data: frame(10, 10, { gauges: gauges({ engine: "down" }) }) });
  store.dispatch({
    type: "frame",
    data: frame(10, 10, { gauges: gauges({ engine: "down" }), markers: [{ t: 1, kind: "run_end", text: "x" }] }),
  });
  assert.equal(calls, 2);
});

test("numbers: dash for what is undefined, three digits of ms, commas", () => {
  assert.deepEqual([null, undefined, 0, 0.1234, 4.567, 78.94, 9.996, 412.4, 1234.5].map(format.sig3), [
    "—",
    "—",
    "0",
    "0.123",
    "4.57",
    "78.9",
    "10.0",
    "412",
    "1,235",
  ]);
  assert.deepEqual([null, 9999, 12_345].map(format.ms), ["—", "9,999 ms", "12.3 s"]);
  assert.deepEqual([null, 0, 0.054, 0.5].map(format.percent), ["—", "0", "5.4", "50"]);
  assert.deepEqual([0.994, 0.998, 0.9999, 1].map(format.percent), ["99", "99.8", "99.9", "100"]);
  assert.deepEqual([format.secondsOf(20, 60), format.secondsOf(60, 60)], ["20 of 60 s", "60 s"]);
  assert.deepEqual(format.percents([0.998, 0.002]), ["99.8", "0.2"]);
  assert.deepEqual(format.percents([0.655, 0.345, null]), ["66", "34", "—"]);
  assert.deepEqual(format.percents([1 / 3, 1 / 3, 1 / 3]), ["34", "33", "33"]);
  assert.equal(format.clock(3723), "1:02:03");
  assert.equal(format.requestUrl("req_1/0"), "/requests/req_1");
});

test("the sentence names what binds", () => {
  const base = gauges({
    waiting: 12,
    running: 9,
    max_num_seqs: 16,
    blocks_total: 384,
    blocks_free: 13,
    token_budget: 256,
    finished: 0,
  });
  const by = (reasons) => sentence({ ...base, waiting_by_reason: { step: 0, slots: 0, kv_blocks: 0, ...reasons } }).text;
  assert.equal(by({ kv_blocks: 12 }), "12 wait, for KV blocks: 371 of 384 in use.");
  assert.equal(by({ kv_blocks: 10, step: 2 }), "12 wait: 10 for KV blocks (371 of 384 in use), 2 for the running step to end.");
  assert.equal(reasonWords("kv_blocks", base), "KV blocks: the next in line needs more free memory");
  assert.match(sentence({ ...base, engine: "down" }).text, /down/);
  const idle = { ...base, waiting: 0, running: 0, preempted: 0, engine: "up" };
  assert.equal(sentence(idle).text, "Ready: nothing has run yet.");
  assert.equal(sentence(idle, true).text, "Ready: nothing has run since this start.");
});

test("the time that a run drains is no part of the time that it sends", () => {
  const run = { status: "running", elapsed_s: 12, duration_s: 38 };
  assert.equal(phaseWords(run), "running 0:12 of 0:38");
  assert.equal(phaseWords({ ...run, duration_s: null }), "running 0:12");
  assert.equal(phaseWords({ ...run, status: "draining", elapsed_s: 46 }), "sent for 0:38, draining for 0:08");
  assert.equal(phaseWords({ ...run, status: "draining", elapsed_s: 20 }), "draining, 0:20 since its start");
});

test("a lifecycle's spans join, and end where the request ended", () => {
  const slices = {
    step: [1, 3, 4],
    t_ms: [10, 30, 40],
    ms: [10, 10, 10],
    tokens: [5, 2, 1],
    kind: ["prefill", "prefill", "decode"],
    emitted: [0, 1, 1],
  };
  const request = { waits: { step: 2, slots: 8 }, sequences: 1, slices };
  const events = [
    ["RequestQueued", 1],
    ["RequestScheduled", 10],
    ["FirstToken", 40],
    ["RequestPreempted", 50],
    ["RequestScheduled", 60],
    ["RequestFinished", 90],
  ];
  const found = spans(
    request,
    events.map(([kind, t_ms]) => ({ kind, t_ms })),
    90,
  );
  assert.deepEqual(
    found.map((span) => span.kind),
    ["r-step", "r-slots", "prefill", "stalled", "prefill", "decode", "preempted", "decode"],
  );
  found.slice(1).forEach((span, index) => assert.equal(span.from, found[index].to));
  assert.deepEqual([found[0].from, found.at(-1).to], [0, 90]);
});
