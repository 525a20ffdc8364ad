// Arithmetic of #rrggbb colours. Pure.

const parts = (colour) => [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));

/** `share` of one colour over another. */
export function mix(colour, ground, share) {
  const below = parts(ground);
  const mixed = parts(colour).map((value, i) => Math.round(value * share + below[i] * (1 - share)));
  return `#${mixed.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

/** Relative luminance, WCAG 2.2. */
export function luminance(colour) {
  const [r, g, b] = parts(colour).map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Black or white, whichever is told better from `colour`: they are equally far at 0.179. */
export const inkOn = (colour) => (luminance(colour) > 0.179 ? "#000000" : "#ffffff");
