// Bars of gaps between tokens: one a gap, above a thousand the longest of each bin. Pure.

const MOST_BARS = 1000;

/** Bars [{ ms, token, step, t_ms }]: one a gap, or the longest of each bin of equally many. */
export function binned(gaps, most = MOST_BARS) {
  const size = Math.max(1, Math.ceil(gaps.ms.length / most));
  const bars = [];
  for (let from = 0; from < gaps.ms.length; from += size) {
    let at = from;
    for (let i = from; i < Math.min(from + size, gaps.ms.length); i += 1) if (gaps.ms[i] > gaps.ms[at]) at = i;
    bars.push({ ms: gaps.ms[at], token: at + 2, step: gaps.step[at], t_ms: gaps.t_ms[at] });
  }
  return { bars, size };
}
