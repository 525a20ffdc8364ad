// The law of what the charts place and group, run by node (test_scripts.py starts it).

import assert from "node:assert/strict";
import test from "node:test";

import { scaleOf } from "../../static/js/panels/latency_card.js";
import { fillAreas, points, slotsSince } from "../../static/js/panels/load_areas.js";
import { markerPlace, niceStep } from "../../static/js/panels/scale.js";
import { grouped } from "../../static/js/panels/waiting_table.js";
import { STEPS_KEPT } from "../../static/js/store.js";

test("areas are summed here, each on those below, and a step has its place from the right edge", () => {
  const steps = { step: [7, 8], running: [2, 3], slots: [16, 8], by_reason: { slots: [1, 0], kv_blocks: [0, 4], quota: [0, 0] } };
  const sets = [{}, ...["slots", "quota", "kv_blocks"].map((reason) => ({ reason })), { label: "slots" }];
  fillAreas(sets, steps, ["slots", "kv_blocks"]);
  const [running, slots, quota, kv, line] = sets;
  const heights = ({ data }) => data.map(({ y }) => y);
  assert.deepEqual([running, slots, kv].map(heights), [[2, 3], [3, 3], [3, 7]]);
  assert.deepEqual([slots.fill, kv.fill], [0, 1]);
  assert.deepEqual([quota.hidden, heights(quota)], [true, []]);
  assert.deepEqual(heights(line), [16, 8], "each step under the limit that was in force when it ran");
  assert.deepEqual(kv.data[1], { x: STEPS_KEPT - 0.5, y: 7, v: 4, step: 8 });
  assert.deepEqual(points(steps, [50, 60], [5, 6])[0], { x: STEPS_KEPT - 1.5, y: 50, v: 5, step: 7 });
});

test("there are as many rows as slots were in force in view, whatever the limit is now", () => {
  const steps = { t: [1000, 2000, 3000], slots: [256, 16, 8] };
  assert.equal(slotsSince(steps, 1500, 256), 16);
  assert.equal(slotsSince(steps, 0, 4), 256);
  assert.equal(slotsSince(steps, 3001, 4), 4, "no step there: those of now");
  assert.equal(slotsSince({ t: [1], slots: [null] }, 0, 4), 4, "not known: those of now");
});

test("a step between ticks is round", () => {
  assert.deepEqual([[100, 4], [0.29, 3], [186, 4]].map(([span, count]) => niceStep(span, count)), [50, 0.1, 50]);
});

test("texts of markers meet neither each other nor the edge, and no other line where that can be", () => {
  for (const lines of [[100, 108], [100, 100], [5, 9, 300], [290, 296, 299], [100, 130, 160, 190]]) {
    const taken = [];
    for (const x of lines) {
      const place = markerPlace(x, 40, lines, taken, [0, 300]);
      if (place === null) continue;
      assert.ok(place.left >= 0 && place.right <= 300);
      for (const other of taken)
        assert.ok(other.row !== place.row || other.right < place.left || place.right < other.left, String(lines));
      taken.push(place);
    }
    assert.ok(taken.length >= Math.min(2, lines.length), String(lines));
  }
  const near = [100, 108];
  const first = markerPlace(100, 30, near, [], [0, 300]);
  assert.ok(first.right < 100, "left of its line, since the other line is on the right");
  assert.ok(markerPlace(108, 30, near, [first], [0, 300]).left > 108);
  assert.ok(markerPlace(100, 30, near, [], [90, 300]).left > 100, "there is no room on the left");
  assert.equal(markerPlace(100, 400, [100], [], [0, 300]), null);
});

test("who waits for the same stands together, in the order of who waited longest", () => {
  const rows = [
    { id: 1, why: "a" },
    { id: 2, why: "b" },
    { id: 3, why: "a" },
  ];
  const found = grouped(rows, (row) => row.why).map(([words, group]) => [words, group.map((row) => row.id)]);
  assert.deepEqual(found, [["a", [1, 3]], ["b", [2]]]);
});

test("a bound is drawn unless it is so far that nothing else would be seen", () => {
  assert.deepEqual(scaleOf(100, 200), [210, true]);
  assert.deepEqual(scaleOf(100, 50), [105, true]);
  assert.deepEqual(scaleOf(100, 2000), [105, false]);
  assert.deepEqual(scaleOf(null, 2000), [1, false]);
  assert.deepEqual(scaleOf(100, null), [105, false]);
});
