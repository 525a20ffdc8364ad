// Where ticks and the texts of markers stand. Pure: knows no canvas.

const MARKER_ROWS = 2;

/** A step for about `count` ticks over `span`: 1, 2 or 5 times a power of ten. */
export function niceStep(span, count) {
  const rough = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
}

/**
 * Where a text `wide` stands beside its line at `x`: right of it or left, in the first row in which it meets no text and, if
 * possible, no other line. { left, right, row }, or null where there is no room.
 */
export function markerPlace(x, wide, lines, taken, [least, most]) {
  const places = [];
  for (let row = 0; row < MARKER_ROWS; row += 1)
    for (const left of [x + 2, x - 2 - wide]) places.push({ left, right: left + wide, row });
  const meets = (place, other) => place.left < other.right + 4 && other.left < place.right + 4;
  const free = places.filter(
    (place) => place.left >= least && place.right <= most && !taken.some((other) => other.row === place.row && meets(place, other)),
  );
  const clear = ({ left, right }) => !lines.some((line) => line !== x && line > left - 1 && line < right + 1);
  return free.find(clear) || free[0] || null;
}
