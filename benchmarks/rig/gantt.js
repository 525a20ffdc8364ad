// The timeline's bars in a page of their own: made, appended to, panned, hovered. Times are ms of synchronous script.

import { fromColumns } from "/js/timeline/bars.js";
import { createPage } from "/js/timeline/page.js";
import { order, paintBars } from "/js/timeline/paint.js";

const ROUNDS = 40;
const PHASES = ["queued", "prefill", "decode"];
const WIDTHS = [0.4, 0.1, 1.5]; // seconds on average

/** The same numbers in every run. */
function chance(seed) {
  let state = seed;
  return () => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648;
}

/** Requests of three phases, back to back in `lanes` rows, in the order in which they come. */
function columns(count, lanes) {
  const next = chance(7);
  const free = new Array(lanes).fill(0).map(() => next());
  const rows = [];
  for (let n = 0; rows.length < count; n += 1) {
    const lane = n % lanes;
    for (let phase = 0; phase < 3 && rows.length < count; phase += 1) {
      const t0 = free[lane];
      free[lane] += WIDTHS[phase] * (0.2 + 1.6 * next());
      rows.push([`req_${n}`, 1, phase ? lane : -1, PHASES[phase], t0 * 1000, free[lane] * 1000, n % 2 ? "a" : "b", null, lane]);
    }
  }
  const names = ["id", "boot", "slot", "phase", "t0", "t1", "tenant", "reason", "lane"];
  return Object.fromEntries(names.map((name, i) => [name, rows.map((row) => row[i])]));
}

function setUp(count, lanes) {
  const bars = fromColumns(columns(count, lanes), { 1: { wall_ms: 0 } }, 0);
  const canvas = document.querySelector("canvas");
  const page = createPage(canvas, canvas);
  page.records = { bars, groups: [{ label: "request", lanes }] };
  page.state.rows = "request";
  page.now = Math.max(...bars.lanes.map((list) => bars.t1[list[list.length - 1]]));
  Object.assign(page.view, { last: page.now, width: canvas.clientWidth });
  page.view.fit();
  order(page);
  paintBars(page);
  return page;
}

function timed(deed) {
  const began = performance.now();
  deed();
  return performance.now() - began;
}

const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));

/** Twenty more bars and everything drawn, round by round, a frame each. */
async function appended(page) {
  const { bars } = page.records;
  const took = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    await frame();
    took.push(
      timed(() => {
        for (let n = 0; n < 20; n += 1) {
          const lane = (round * 20 + n) % bars.lanes.length;
          const t0 = bars.t1[bars.lanes[lane][bars.lanes[lane].length - 1]];
          bars.add(`new_${round}_${n}`, "a", 2, lane, lane, t0, t0 + 0.5, null);
        }
        paintBars(page);
      }),
    );
  }
  return took;
}

/** Through the middle at `share` of the whole in view: [ms a redraw], [ms between frames]. */
async function panned(page, share) {
  const { view } = page;
  view.show(view.last * (0.5 - share / 2), view.last * (0.5 + share / 2));
  const took = [];
  const between = [];
  let last = await frame();
  for (let round = 0; round < ROUNDS; round += 1) {
    took.push(
      timed(() => {
        view.pan(round % 2 ? 0.02 : -0.02);
        paintBars(page);
      }),
    );
    const now = await frame();
    between.push(now - last);
    last = now;
  }
  return [took, between];
}

function hovered(page) {
  const { bars } = page.records;
  const next = chance(3);
  let hits = 0;
  const took = timed(() => {
    for (let n = 0; n < 1000; n += 1) {
      const lane = Math.floor(next() * bars.lanes.length);
      if (bars.at(lane, page.view.from + next() * page.view.span, 0.001, page.now) >= 0) hits += 1;
    }
  });
  return { hover_us: took, hits }; // ms for a thousand are µs for one
}

export async function measure(count, lanes) {
  let page;
  const create = timed(() => (page = setUp(count, lanes)));
  const append = await appended(page);
  const [pan, between] = await panned(page, 1);
  const [zoomed] = await panned(page, 0.06);
  return { create, append, pan, between, zoomed, drawn: page.drawn, ...hovered(page) };
}
