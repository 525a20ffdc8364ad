// The law of the timeline's arithmetic, run by node (test_timeline_scripts.py starts it).

import assert from "node:assert/strict";
import test from "node:test";

import { percentile, summarise } from "../../static/js/timeline/area.js";
import { Bars, fromColumns } from "../../static/js/timeline/bars.js";
import { inkOn, luminance, mix } from "../../static/js/timeline/colour.js";
import { eachColumn } from "../../static/js/timeline/steps.js";
import { write } from "../../static/js/timeline/url.js";
import { View } from "../../static/js/timeline/view.js";

function three() {
  const bars = new Bars();
  bars.add("r/0", "a", 0, -1, -1, 0, 1, null);
  bars.add("r/0", "a", 1, 3, 3, 1, 2, null);
  bars.add("s", "b", 2, 3, 3, 4, null, null);
  bars.add("r/0", "a", 3, -1, -1, 2, 3, null);
  return bars;
}

function steps(rows) {
  const names = ["t", "ms", "prefill", "decode", "budget", "waiting"];
  return Object.fromEntries(names.map((name, i) => [name, rows.map((row) => row[i])]));
}

test("a bar is found where it lies, beside it only within the slack, and an open one goes on to now", () => {
  const bars = three();
  assert.equal(bars.at(3, 1.5, 0, 9), 1);
  assert.equal(bars.at(3, 3, 0.1, 9), -1);
  assert.equal(bars.at(3, 2.05, 0.1, 9), 1);
  assert.equal(bars.at(3, 8, 0, 9), 2);
  assert.equal(bars.end(2, 9), 9);
  assert.equal(bars.at(7, 1, 0, 9), -1);
});

test("phases of a request are linked, and the one before a preemption was evicted", () => {
  const bars = three();
  assert.deepEqual([bars.after[0], bars.after[1], bars.before[3]], [1, 3, 1]);
  assert.deepEqual([bars.evicted(0), bars.evicted(1), bars.evicted(2)], [false, true, false]);
  assert.deepEqual([bars.find("r", null), bars.find("r", 2), bars.find("nobody", null)], [1, 3, -1]);
});

test("bars that come late are put in their place, and those of an unknown life are left out", () => {
  const bars = three();
  bars.add("early", "a", 2, 3, 3, 2.5, 3.5, null);
  assert.deepEqual(
    bars.lanes[3].map((i) => bars.t0[i]),
    [1, 2.5, 4],
  );
  const columns = { id: ["x", "y"], boot: [1, 2], slot: [0, 0], phase: ["decode", "decode"], lane: [0, 0] };
  Object.assign(columns, { t0: [500, 0], t1: [1500, 1], tenant: ["a", "a"], reason: ["stop", null] });
  const found = fromColumns(columns, { 1: { wall_ms: 10_000 } }, 9_000);
  assert.deepEqual([found.count, found.t0[0], found.t1[0]], [1, 1.5, 2.5]);
});

test("an area counts who was alive in it and cuts what sticks out", () => {
  const found = summarise(
    three(),
    steps([
      [1, 100, 5, 0, 10, 0],
      [2, 300, 0, 2, 10, 0],
      [5, 500, 9, 9, 20, 0],
    ]),
    [0.5, 2.5],
    9,
  );
  assert.deepEqual([found.requests, found.queued, found.preempted], [1, 0.5, 0.5]);
  assert.deepEqual([found.steps, found.prefill, found.decode, found.used], [2, 5, 2, 7 / 20]);
  assert.equal(found.stepP95, 290);
  assert.equal(percentile([], 0.95), null);
  assert.equal(percentile([17], 0.99), 17);
});

test("steps that share a pixel are told together, and who waits does not stop between two steps", () => {
  const rows = steps([
    [1, 500, 1, 0, 9, 2],
    [1.2, 200, 1, 0, 9, 2],
    [9, 1000, 1, 0, 9, 0],
  ]);
  const seen = [];
  const pixel = (t) => t;
  eachColumn(rows, 0, 10, pixel, [0, 10], (x, w, i, j) => seen.push([x, w, i, j]), true);
  assert.deepEqual(seen, [
    [1, 7, 0, 2],
    [8, 1, 2, 3],
  ]);
});

test("a zoom keeps what is under the pointer, a fit shows everything, and nobody leaves the data", () => {
  const view = new View();
  Object.assign(view, { first: 0, last: 100 });
  view.fit();
  assert.ok(view.isWhole());
  const before = (30 - view.from) / view.span;
  view.zoom(0.5, 30);
  assert.ok(Math.abs((30 - view.from) / view.span - before) < 1e-9);
  assert.ok(Math.abs(view.t(view.x(42)) - 42) < 1e-9);
  for (let n = 0; n < 50; n += 1) view.pan(0.5);
  assert.ok(view.to <= 105.0001 && view.from < 100);
  for (let n = 0; n < 80; n += 1) view.zoom(0.5, 90);
  assert.ok(view.span >= 0.002 - 1e-9);
});

test("labels on bars can be read on every phase in both themes", () => {
  for (const [prefill, decode, card] of [
    ["#0072b2", "#e69f00", "#ffffff"],
    ["#56b4e9", "#f0b429", "#161a20"],
  ])
    for (const ground of [prefill, mix(decode, card, 0.72)]) {
      const [low, high] = [luminance(ground), luminance(inkOn(ground))].sort((a, b) => a - b);
      assert.ok((high + 0.05) / (low + 0.05) >= 4.5, ground);
    }
});

test("an address names the run that is shown, also where the page was opened without one", (t) => {
  const [kept, pushed] = [{ location: globalThis.location, history: globalThis.history }, []];
  t.after(() => Object.assign(globalThis, kept));
  const location = { pathname: "/timeline", search: "" };
  Object.assign(globalThis, { location, history: { pushState: (...given) => pushed.push(given[2]) } });
  const state = { run: null, range: null, rows: "slot", sel: "r", phase: null, area: null, marks: [], pins: [] };
  write(state, true, "run_7");
  write({ ...state, run: null }, true, "live");
  write({ ...state, run: "run_3" }, true, "run_7");
  assert.deepEqual(pushed, ["run_7", "live", "run_3"].map((run) => `/timeline?run=${run}&sel=req:r`));
});
