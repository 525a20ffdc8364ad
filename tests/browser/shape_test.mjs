// The points of a load shape: what is read, moved, added and removed, without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";
import { added, moved, MOST_POINTS, PRESETS, read, removed, write } from "../../static/js/panels/shape_points.js";

test("a text that is a shape comes back as it was, any other is none", () => {
  for (const text of ["0:1", "0:1 20:8 40:8 60:1", "0:0.5 10:2 10:8"]) assert.equal(write(read(text)), text);
  for (const text of ["", "0:1 20-8", "5:1", "0:1 20:8 10:2", "0:1 x:2", "0:1 1.2.3:4"]) assert.equal(read(text), null, text);
});

test("a point moves between its neighbours and no further, the first not at all in time, none below a rate of 0", () => {
  const points = read("0:1 10:2 20:3");
  assert.equal(write(moved(points, 1, 25, -4)), "0:1 20:0 20:3");
  assert.equal(write(moved(points, 0, 5, 7)), "0:7 10:2 20:3");
  assert.equal(write(moved(points, 2, 99, 4)), "0:1 10:2 99:4");
  assert.equal(write(points), "0:1 10:2 20:3");
});

test("a new point lies on the line unless it says otherwise, and there are never too many", () => {
  const points = read("0:0 10:10");
  assert.deepEqual(added(points, 5), [[[0, 0], [5, 5], [10, 10]], 1]);
  assert.deepEqual(added(points, 15, 3), [[[0, 0], [10, 10], [15, 3]], 2]);
  assert.deepEqual(added(points, 30)[0].at(-1), [30, 10]);
  const full = Array.from({ length: MOST_POINTS }, (_, i) => [i, 1]);
  assert.equal(added(full, 5.5)[0].length, MOST_POINTS);
});

test("the first and the last point left stay", () => {
  const points = read("0:1 10:2");
  assert.equal(write(removed(points, 0)), "0:1 10:2");
  assert.equal(write(removed(points, 1)), "0:1");
  assert.equal(write(removed(read("0:1"), 0)), "0:1");
});

test("every preset is a shape from 0 to the end, between its two rates", () => {
  for (const [name, make] of Object.entries(PRESETS)) {
    const points = read(write(make(60, 1, 8)));
    assert.ok(points, name);
    assert.equal(points.at(-1)[0], 60, name);
    assert.equal(Math.max(...points.map(([, rate]) => rate)), 8, name);
    assert.equal(Math.min(...points.map(([, rate]) => rate)), 1, name);
  }
});
