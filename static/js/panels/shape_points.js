// A load shape as points [[seconds, rate], …] and as its one string, "0:1 20:8". Pure: knows no canvas.

export const MOST_POINTS = 100;
const MOST_RATE = 10000;
const LATEST = 604800;
const short = (value) => Number(value.toFixed(3));

/** The points of a text, or null where it is none; who says why is the server. */
export function read(text) {
  const points = text.trim().split(/\s+/).map((word) => (/^[\d.]+:[\d.]+$/.test(word) ? word.split(":").map(Number) : [NaN]));
  const ascends = points.every(([t], i) => (i === 0 ? t === 0 : t >= points[i - 1][0]));
  return ascends && points.every(([t, rate]) => Number.isFinite(t) && Number.isFinite(rate)) ? points : null;
}

export const write = (points) => points.map(([t, rate]) => `${short(t)}:${short(rate)}`).join(" ");

/** The points with the i-th moved there, as far as it may: the first stays at 0 s, none passes its neighbours. */
export function moved(points, i, t, rate) {
  const [least, most] = i === 0 ? [0, 0] : [points[i - 1][0], i + 1 < points.length ? points[i + 1][0] : LATEST];
  const place = [Math.min(most, Math.max(least, t)), Math.min(MOST_RATE, Math.max(0, rate))];
  return points.map((point, n) => (n === i ? place : point));
}

/** [points, index of the new one]: at `t` on the line, or at `rate` there. */
export function added(points, t, rate = rateAt(points, t)) {
  if (points.length >= MOST_POINTS) return [points, points.length - 1];
  const at = points.findLastIndex((point) => point[0] <= t) + 1;
  return [moved([...points.slice(0, at), [t, rate], ...points.slice(at)], at, t, rate), at];
}

/** Without the i-th; the first and the last of all stay. */
export const removed = (points, i) => (i === 0 || points.length === 1 ? points : points.filter((_, n) => n !== i));

function rateAt(points, t) {
  const next = points.findIndex((point) => point[0] > t);
  if (next < 1) return points.at(next)[1];
  const [[t0, r0], [t1, r1]] = [points[next - 1], points[next]];
  return r0 + ((r1 - r0) * (t - t0)) / (t1 - t0);
}

const WAVE = 16;

/** Shapes to begin with: over `seconds`, from `low` to `high` a second. */
export const PRESETS = {
  ramp: (seconds, low, high) => [[0, low], [seconds, high]],
  step: (seconds, low, high) => [[0, low], [seconds / 3, low], [seconds / 3, high], [seconds, high]],
  spike: (seconds, low, high) => [[0, low], [0.4 * seconds, low], [0.5 * seconds, high], [0.6 * seconds, low], [seconds, low]],
  sine: (seconds, low, high) =>
    Array.from({ length: WAVE + 1 }, (_, i) => [
      (seconds * i) / WAVE,
      low + ((high - low) * (1 - Math.cos((4 * Math.PI * i) / WAVE))) / 2,
    ]),
};
