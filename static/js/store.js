// One reducer: snapshot, frame, older, run, link → state. Knows no document and no socket; runs in node for its test.
// Trap: `bars` and the arrays in `steps` are kept between states and changed in place; `version` tells that they did.

export const STEPS_KEPT = 600;
const BARS_KEPT = 20_000;
const BAR_AGE_MS = 60_000;
// slots: that were in force; the records do not have them: null
const STEP_COLUMNS = "seq step t ms prefill decode budget binding waiting running kv_used preempted slots".split(" ");
const BAR_COLUMNS = "id number slot phase t0 t1 tenant reason".split(" ");

export function emptySteps() {
  return { ...Object.fromEntries(STEP_COLUMNS.map((name) => [name, []])), by_reason: {} };
}

export function initialState() {
  return {
    boot: null,
    seq: null,
    wallMs: null,
    server: null,
    gauges: null,
    steps: emptySteps(),
    bars: new Map(),
    barsDropped: 0,
    waitingNow: [],
    markers: [],
    run: null,
    gap: null, // { missed, filled, newest }: steps that went by while the page was away, beyond what the server keeps at hand
    link: "connecting",
    linkWhy: "",
    version: 0,
  };
}

/** True when `frame` does not begin where `state` ends: ask for what is missing. */
export function isHole(state, frame) {
  return frame.boot !== state.boot || frame.from > state.seq;
}

export function reduce(state, action) {
  if (action.type === "snapshot") return fromSnapshot(state, action.data);
  if (action.type === "frame") return withFrame(state, action.data);
  if (action.type === "older") return withOlder(state, action);
  if (action.type === "run") return { ...state, run: action.data, version: state.version + 1 };
  if (action.type === "link")
    return withLink(state, action.link, action.why || "");
  throw new Error(`unknown action ${action.type}`);
}

function withLink(state, link, why) {
  if (link === state.link && why === state.linkWhy) return state;
  return { ...state, link, linkWhy: why, version: state.version + 1 };
}

/** How many steps lie between those shown and those of a snapshot of the same engine life. */
function missed(state, data) {
  if (data.boot !== state.boot || state.steps.step.length === 0 || data.steps.step.length === 0) return 0;
  return Math.max(0, data.steps.step[0] - state.steps.step.at(-1) - 1);
}

/** What a snapshot leaves out and the page has room to show, as { boot, from, to } (seqs); null when it is nothing. */
export function wanted(state, data) {
  if (missed(state, data) === 0 || data.steps.seq.length >= STEPS_KEPT) return null;
  return { boot: data.boot, from: state.steps.seq.at(-1) + 1, to: data.steps.seq[0] - 1 };
}

/** Steps from the records go before those shown, as far as they join. */
function withOlder(state, { boot, steps }) {
  const shown = state.steps;
  let at = steps.step.length - 1;
  if (boot !== state.boot || state.gap === null || at < 0 || steps.step[at] !== shown.step[0] - 1) return state;
  while (at > 0 && steps.step[at - 1] === steps.step[at] - 1) at -= 1;
  const all = emptySteps();
  appendSteps(all, steps, steps.seq[at] - 1);
  const filled = Math.min(all.seq.length, STEPS_KEPT - shown.seq.length);
  appendSteps(all, shown, all.seq.at(-1));
  return { ...state, steps: all, gap: { ...state.gap, filled }, version: state.version + 1 };
}

function fromSnapshot(state, data) {
  const away = missed(state, data);
  const steps = emptySteps();
  appendSteps(steps, data.steps, -1);
  const bars = new Map();
  upsertBars(bars, data.segments);
  return {
    ...state,
    boot: data.boot,
    seq: data.seq,
    wallMs: data.wall_ms,
    server: data.server,
    gauges: data.gauges,
    steps,
    bars,
    barsDropped: data.segments_dropped || 0,
    waitingNow: data.waiting_now,
    markers: data.markers,
    run: data.run,
    gap: away ? { missed: away, filled: 0, newest: data.steps.step.at(-1) } : data.boot === state.boot ? state.gap : null,
    link: "live",
    linkWhy: "",
    version: state.version + 1,
  };
}

function withFrame(state, frame) {
  if (isHole(state, frame) || frame.to < state.seq) return state;
  const alive = withLink(state, "live", "");
  if (isStill(state, frame)) return alive;
  appendSteps(state.steps, frame.steps, state.seq);
  upsertBars(state.bars, frame.changes);
  pruneBars(state.bars, frame.gauges.now_ms - BAR_AGE_MS);
  return {
    ...alive,
    seq: frame.to,
    gauges: frame.gauges,
    waitingNow: frame.waiting_now,
    markers: frame.markers,
    server: frame.server || state.server,
    version: state.version + 1,
  };
}

/** A heartbeat at rest: nothing happened, nobody waits or runs; then nothing on the page may change. */
function isStill(state, frame) {
  const before = state.gauges,
    now = frame.gauges;
  if (frame.to !== state.seq || frame.server || JSON.stringify(frame.markers) !== JSON.stringify(state.markers)) return false;
  if (now.waiting + now.running + now.preempted > 0) return false;
  return Object.keys(now).every(
    (name) => name === "now_ms" || name === "dashboards" || JSON.stringify(now[name]) === JSON.stringify(before[name]),
  );
}

/** Puts the rows of `columns` after seq `last` behind `steps`, in place, and lets the oldest go. */
export function appendSteps(steps, columns, last) {
  const skip = columns.seq.findIndex((seq) => seq > last);
  if (skip < 0) return;
  const before = steps.seq.length;
  const filled = (column, value) => column || new Array(columns.seq.length).fill(value);
  for (const name of STEP_COLUMNS) append(steps[name], filled(columns[name], null), skip);
  const added = steps.seq.length - before;
  for (const reason of new Set([...Object.keys(steps.by_reason), ...Object.keys(columns.by_reason)])) {
    const column = (steps.by_reason[reason] = steps.by_reason[reason] || new Array(before).fill(0));
    append(column, filled(columns.by_reason[reason], 0), skip);
  }
  const extra = before + added - STEPS_KEPT;
  if (extra > 0) {
    for (const name of STEP_COLUMNS) steps[name].splice(0, extra);
    for (const column of Object.values(steps.by_reason)) column.splice(0, extra);
  }
}

function append(target, source, skip) {
  for (let index = skip; index < source.length; index += 1) target.push(source[index]);
}

/** Bars are keyed by request, phase and start: a later row of the same key closes it. */
function upsertBars(bars, columns) {
  for (let index = 0; index < columns.number.length; index += 1) {
    const bar = {};
    for (const name of BAR_COLUMNS) bar[name] = columns[name][index];
    bars.set(`${bar.number}:${bar.phase}:${bar.t0}`, bar);
  }
}

function pruneBars(bars, before) {
  for (const [key, bar] of bars) {
    if (bar.t1 !== null && (bar.t1 < before || bars.size > BARS_KEPT)) bars.delete(key);
  }
}

/** The state, and those who want to know of it. */
export function createStore() {
  let state = initialState();
  const listeners = new Set();
  return {
    get state() {
      return state;
    },
    subscribe(listener) {
      listeners.add(listener);
    },
    dispatch(action) {
      const next = reduce(state, action);
      if (next === state) return;
      state = next;
      for (const listener of listeners) listener(state);
    },
  };
}
