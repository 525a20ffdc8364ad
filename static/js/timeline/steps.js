// Searching the columns of steps, and dealing them out to pixels. Pure.
// Steps are in the order of their ends: t in seconds, ms their length.

/** First step that ends at or after `t`. */
export function firstStep(steps, t) {
  let low = 0,
    high = steps.t.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps.t[middle] < t) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Calls each(x, w, i, j): steps i to j (exclusive) of [from, to] that share the pixels from x on. `hold`: who
    waited at a step's end goes on waiting until the next. */
export function eachColumn(steps, from, to, x, edge, each, hold = false) {
  let i = firstStep(steps, from);
  while (i < steps.t.length && steps.t[i] - steps.ms[i] / 1000 <= to) {
    const left = Math.max(edge[0], Math.round(x(steps.t[i] - steps.ms[i] / 1000)));
    let j = i + 1;
    while (j < steps.t.length && Math.round(x(steps.t[j] - steps.ms[j] / 1000)) <= left) j += 1;
    const next = j < steps.t.length ? Math.round(x(steps.t[j] - steps.ms[j] / 1000)) : 0;
    const end = Math.round(x(steps.t[j - 1]));
    const right = Math.min(edge[1], hold && steps.waiting[j - 1] > 0 ? Math.max(next, end) : end);
    if (left < edge[1]) each(left, Math.max(1, right - left), i, j);
    i = j;
  }
}

export const most = (column, i, j) => {
  let best = i;
  for (let k = i + 1; k < j; k += 1) if (column[k] > column[best]) best = k;
  return best;
};
