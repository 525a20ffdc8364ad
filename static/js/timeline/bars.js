// Bars as columns, and a list of them a lane. Knows neither canvas nor network.
// Invariant: the bars of a lane do not overlap and are in order of time, so both ends can be searched by halving.

export const PHASES = ["queued", "prefill", "decode", "preempted"];
const OPEN = Infinity;

export class Bars {
  constructor() {
    Object.assign(this, { id: [], tenant: [], reason: [], t0: [], t1: [], phase: [], slot: [], before: [], after: [] });
    this.lanes = [];
    this.last = new Map(); // id → its newest bar
  }

  get count() {
    return this.id.length;
  }

  /** Seconds; t1 null while it is open. Bars of a request come in order. */
  add(id, tenant, phase, slot, lane, t0, t1, reason) {
    const index = this.count;
    const before = this.last.has(id) ? this.last.get(id) : -1;
    this.id.push(id);
    this.tenant.push(tenant);
    this.reason.push(reason);
    this.t0.push(t0);
    this.t1.push(t1 === null ? OPEN : t1);
    this.phase.push(phase);
    this.slot.push(slot);
    this.before.push(before);
    this.after.push(-1);
    if (before >= 0) this.after[before] = index;
    this.last.set(id, index);
    if (lane >= 0) this.insert(index, lane);
  }

  insert(index, lane) {
    while (this.lanes.length <= lane) this.lanes.push([]);
    const list = this.lanes[lane];
    let at = list.length;
    while (at > 0 && this.t0[list[at - 1]] > this.t0[index]) at -= 1;
    list.splice(at, 0, index);
  }

  isOpen(index) {
    return this.t1[index] === OPEN;
  }

  /** The end, `now` while it is open. */
  end(index, now) {
    return this.t1[index] === OPEN ? Math.max(now, this.t0[index]) : this.t1[index];
  }

  /** Its slot was taken from it at its end. */
  evicted(index) {
    const next = this.after[index];
    return next >= 0 && this.phase[next] === 3;
  }

  /** Place in lane `list` of the first bar that ends at or after `t`. */
  firstEnding(list, t) {
    let low = 0,
      high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.t1[list[middle]] < t) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The bar of a lane at `t`, or the nearest within `slack` seconds; -1. */
  at(lane, t, slack, now) {
    const list = this.lanes[lane] || [];
    let best = -1,
      distance = slack;
    for (let i = this.firstEnding(list, t - slack); i < list.length && this.t0[list[i]] <= t + slack; i += 1) {
      const index = list[i];
      const far = Math.max(this.t0[index] - t, t - this.end(index, now), 0);
      if (far <= distance) [best, distance] = [index, far];
      if (far === 0 && this.t1[index] > this.t0[index]) return index;
    }
    return best;
  }

  /** Which phase of its request it is, from 0. */
  place(index) {
    let n = 0;
    for (let i = this.before[index]; i >= 0; i = this.before[i]) n += 1;
    return n;
  }

  /** Phase `place` of a request, or where it first held a slot; -1 where it has no bar. */
  find(request, place) {
    let found = -1;
    for (let i = 0; i < this.count; i += 1) {
      if (this.id[i] !== request && !this.id[i].startsWith(`${request}/`)) continue;
      if (place === null ? this.slot[i] >= 0 : this.place(i) === place) return i;
      if (found < 0) found = i;
    }
    return found;
  }

  /** The bars that lie in [from, to], in no lane too. */
  *within(from, to, now) {
    for (let i = 0; i < this.count; i += 1) if (this.t0[i] <= to && this.end(i, now) >= from) yield i;
  }
}

/** The columns of /api/segments; times become seconds since `start` (wall ms). Bars of an unknown life are left out. */
export function fromColumns(columns, boots, start) {
  const bars = new Bars();
  for (let i = 0; i < columns.id.length; i += 1) {
    const life = boots[columns.boot[i]];
    if (!life) continue;
    const second = (t) => (t === null ? null : (life.wall_ms - start + t) / 1000);
    const phase = PHASES.indexOf(columns.phase[i]);
    bars.add(
      columns.id[i],
      columns.tenant[i],
      phase,
      columns.slot[i],
      columns.lane[i],
      second(columns.t0[i]),
      second(columns.t1[i]),
      columns.reason[i],
    );
  }
  return bars;
}
