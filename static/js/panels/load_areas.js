// The points of the load chart, whose areas are summed here. Pure: knows no canvas and no chart.

import { STEPS_KEPT } from "../store.js";

/** Points for Chart.js, the newest step at the right edge; `values`: what the tooltip says of them. */
export function points({ step }, heights, values = heights) {
  const first = STEPS_KEPT - step.length + 0.5;
  return heights.map((y, i) => ({ x: first + i, y, v: values[i], step: step[i] }));
}

/** The most slots that any step since `from` (ms) had, `otherwise` where there was none. */
export const slotsSince = ({ t, slots }, from, otherwise) =>
  slots.reduce((most, count, i) => (t[i] < from ? most : Math.max(most, count)), 0) || otherwise;

/** Running and, each on the sum of those below, the reasons that are `present`; the others are hidden. The line of the slots. */
export function fillAreas([running, ...others], steps, present) {
  let sum = steps.running;
  running.data = points(steps, sum);
  let below = 0;
  others.forEach((dataset, index) => {
    if (dataset.label === "slots") dataset.data = points(steps, steps.slots);
    if (!dataset.reason) return;
    dataset.hidden = !present.includes(dataset.reason);
    dataset.data = [];
    if (dataset.hidden) return;
    const column = steps.by_reason[dataset.reason];
    sum = sum.map((count, i) => count + column[i]);
    dataset.data = points(steps, sum, column);
    dataset.fill = below;
    below = index + 1;
  });
}
