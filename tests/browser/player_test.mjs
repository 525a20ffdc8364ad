// The law of the player, run by node (test_scripts.py starts it), on the bundled recording and a clock of its own.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { gunzipSync } from "node:zlib";

import { createPlayer, SPEEDS } from "../../static/js/playback/player.js";
import { createStore } from "../../static/js/store.js";

const path = new URL("../../app/recorded/tutorial.json.gz", import.meta.url);
const recording = JSON.parse(gunzipSync(readFileSync(path)));

/** Time that moves only when told to; `told` counts the draws. */
function stage(t) {
  const timers = new Map();
  let [now, last, told] = [0, 0, 0];
  t.mock.method(globalThis, "setTimeout", (act, after) => (timers.set((last += 1), [now + after, act]), last));
  t.mock.method(globalThis, "clearTimeout", (id) => timers.delete(id));
  t.mock.method(performance, "now", () => now);
  const store = createStore();
  const player = createPlayer(recording, store, () => (told += 1));
  const pass = (ms) => {
    const end = now + ms;
    for (;;) {
      const [id, [due, act]] = [...timers].sort((a, b) => a[1][0] - b[1][0])[0] || [null, [Infinity]];
      if (due > end) break;
      timers.delete(id);
      now = due;
      act();
    }
    now = end;
  };
  return { store, player, pass, waits: () => timers.size, told: () => told };
}

const begin = () => recording.messages[0][0];
/** The longest silence of the recording, ms: so much may lie between the clock and the last frame before it. */
const gap = () => Math.max(...recording.messages.slice(1).map(([at], index) => at - recording.messages[index][0])) + 1;

const seen = ({ version, ...state }) => structuredClone(state);

test("backwards and by leaps one comes to the same state as step by step", (t) => {
  const { store, player } = stage(t);
  const states = [seen(store.state)];
  while (player.position < player.last) {
    player.seek(player.position + 1);
    states.push(seen(store.state));
  }
  assert.ok(states.length > 40 && states.at(-1).gauges.finished === 5);
  for (const stop of [player.last - 1, 20, player.last >> 1, 0, 1, player.last]) {
    player.seek(stop);
    assert.deepEqual(seen(store.state), states[stop], `stop ${stop}`);
  }
});

test("no frame of the recording leaves a hole, and none is skipped on the way", (t) => {
  const { store, player } = stage(t);
  player.seek(player.last);
  const steps = store.state.steps.step;
  assert.deepEqual(steps, steps.map((_, index) => steps[0] + index));
  assert.equal(steps.at(-1), 260);
});

test("at a speed of four a second shows four, and the end halts", (t) => {
  const { player, pass, waits } = stage(t);
  const from = begin();
  player.setSpeed(4);
  player.play();
  pass(1000);
  const after = player.ms;
  assert.ok(player.playing && after <= from + 4000 && after > from + 4000 - gap(), after);
  player.setSpeed(0.25);
  pass(4000);
  assert.ok(player.ms <= after + 1000 && player.ms > after + 1000 - gap(), player.ms);
  player.setSpeed(16);
  pass(10_000);
  assert.deepEqual([player.position, player.playing, waits()], [player.last, false, 0]);
  player.play();
  assert.deepEqual([player.ms, player.playing], [from, true]);
});

test("pause stops the clock, a step goes one frame and pauses", (t) => {
  const { player, pass, waits } = stage(t);
  player.play();
  pass(2500);
  player.pause();
  const [held] = [player.position];
  pass(5000);
  assert.deepEqual([player.position, waits()], [held, 0]);
  player.play();
  player.seek(player.position + 1);
  assert.deepEqual([player.position, player.playing, waits()], [held + 1, false, 0]);
  player.seek(-3);
  assert.equal(player.position, 0);
  player.seek(player.last + 3);
  assert.equal(player.position, player.last);
});

test("an instant with two decimals leads back to the stop that it was taken from", (t) => {
  const { player } = stage(t);
  for (let stop = 1; stop <= player.last; stop += 1) {
    player.seek(stop);
    const there = player.ms;
    player.seek(player.stopAt(Number((there / 1000).toFixed(2)) * 1000));
    assert.equal(player.ms, there);
  }
  player.seek(player.stopAt(-5));
  assert.equal(player.ms, begin());
  assert.equal(player.stopAt(1e9), player.last);
});

test("only the offered speeds are taken", (t) => {
  const { player } = stage(t);
  for (const wrong of [0, -1, 3, NaN, undefined]) player.setSpeed(wrong);
  assert.equal(player.speed, 1);
  assert.deepEqual([SPEEDS[0], SPEEDS.at(-1)], [0.25, 16]);
});
