// What keys and pointer do to the page's state. Each deed changes state and view, then says how: changed (draw, note the place
// in the URL in a moment) or committed (a place that the browser's Back returns to). Knows no network.

import { requestOf, shortId } from "../format.js";
import { OVERVIEW } from "./bands.js";
import { label } from "./gantt.js";
import { firstStep } from "./steps.js";

const NEAR = 3; // pixels within which a bar is hit

export function createDeeds(page, { changed, committed, openStep }) {
  const { view, state } = page;
  const at = () => (page.cursor === null ? (view.from + view.to) / 2 : page.cursor);
  const row = (y) => {
    const lane = page.rows[Math.floor(y / page.rowHeight)];
    return lane === undefined ? -1 : lane;
  };
  const hit = (x, y, canvas) =>
    canvas === page.barsCanvas && x >= view.left && row(y) >= 0
      ? page.records.bars.at(row(y), view.t(x), (NEAR * view.span) / view.plot, page.now)
      : -1;
  const moved =
    (deed) =>
    (...given) => {
      deed(...given);
      state.range = view.isWhole() ? null : [view.from, view.to];
      changed();
    };
  const choose = (index) => {
    const { bars } = page.records;
    page.chosen = index;
    state.sel = index < 0 ? null : requestOf(bars.id[index]);
    state.phase = index < 0 ? null : bars.place(index);
    page.say(index < 0 ? "Nothing selected" : `Selected ${label(bars.id[index])}`);
  };
  /** Where the keys begin for whoever has no pointer. */
  const firstInView = () => {
    const { bars } = page.records;
    for (const index of bars.within(view.from, view.to, page.now)) if (bars.slot[index] >= 0) return index;
    return -1;
  };
  const bounds = (index) => [page.records.bars.t0[index], page.records.bars.end(index, page.now)];
  const around = ([from, to]) => view.show(from - (to - from) * 0.1, to + (to - from) * 0.1);
  const reveal = (index) => {
    choose(index);
    const [from, to] = bounds(index);
    if (from < view.from || to > view.to) {
      if (to - from > view.span) around([from, to]);
      else view.show((from + to - view.span) / 2, (from + to + view.span) / 2);
      state.range = view.isWhole() ? null : [view.from, view.to];
    }
    return committed();
  };
  const deeds = {
    hit,
    zoom: moved((factor) => view.zoom(factor, at())),
    pan: moved((share) => view.pan(share)),
    show: moved((from, to) => view.show(from, to)),
    point: (x) => page.point(x === null || x < view.left || x > view.width - view.right ? null : view.t(x)),
    settle: () => committed(),
    area: (from, to) => {
      state.area = [Math.max(from, view.first), Math.min(to, view.last)];
      if (state.area[1] <= state.area[0]) state.area = null;
      changed();
    },
    step: (t = at()) => {
      const { steps } = page;
      const i = firstStep(steps, t);
      if (i === steps.t.length || steps.t[i] - steps.ms[i] / 1000 > t) return page.say("No step ran there");
      return openStep(steps.boot[i], steps.seq[i]);
    },
    choose: (x, y, canvas) => {
      if (canvas !== page.barsCanvas) return y > OVERVIEW.height && x >= view.left ? deeds.step(view.t(x)) : null;
      choose(hit(x, y, canvas));
      committed();
    },
    areaOfChosen: () => {
      if (page.chosen < 0) return page.say("Select a bar first");
      return (deeds.area(...bounds(page.chosen)), committed());
    },
    mark: () => {
      const slack = (6 * view.span) / view.plot;
      const near = state.marks.findIndex((t) => Math.abs(t - at()) < slack);
      if (near >= 0) state.marks.splice(near, 1);
      else state.marks.push(at());
      committed();
    },
    pin: () => {
      const lane = page.chosen < 0 ? -1 : page.records.bars.lanes.findIndex((list) => list.includes(page.chosen));
      if (lane < 0) return page.say("Select a bar in a row first");
      state.pins = state.pins.includes(lane) ? state.pins.filter((pin) => pin !== lane) : [...state.pins, lane];
      page.arrange();
      return committed();
    },
    clear: () => {
      choose(-1);
      state.area = null;
      committed();
    },
    neighbour: (side) => {
      const { bars } = page.records;
      const next = page.chosen < 0 ? firstInView() : bars[side][page.chosen];
      if (next < 0) return page.say(page.chosen < 0 ? "No bar is in view" : "Its request has no more phases there");
      return reveal(next);
    },
    /** The next request whose id holds `text`, after the chosen one. */
    find: (text) => {
      const { bars } = page.records;
      const own = page.chosen < 0 ? "" : requestOf(bars.id[page.chosen]);
      const at = (i) => (page.chosen + 1 + i) % bars.count;
      for (let i = 0; i < bars.count; i += 1)
        if (bars.slot[at(i)] >= 0 && bars.id[at(i)].includes(text) && (i === bars.count - 1 || requestOf(bars.id[at(i)]) !== own)) {
          page.found(`found: ${shortId(requestOf(bars.id[at(i)]))}`);
          return reveal(at(i));
        }
      page.found("none found");
      choose(-1);
      state.sel = text; // the card says that it has no bar
      return committed();
    },
    fitBar: (x, y, canvas) => {
      const index = hit(x, y, canvas);
      if (index < 0) return;
      choose(index);
      moved(around)(bounds(index));
      committed();
    },
    /** First to what is selected, from there to everything. */
    fit: () => {
      const target = page.chosen >= 0 ? bounds(page.chosen) : state.area;
      const before = [view.from, view.to];
      if (target) around(target);
      const there = target && Math.abs(view.from - before[0]) + Math.abs(view.to - before[1]) < view.span / 1000;
      if (!target || there) view.fit();
      moved(() => null)();
      committed();
    },
  };
  return deeds;
}
