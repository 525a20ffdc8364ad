// Which runs are worth holding against one another: the most alike come first. Pure: rows of GET /api/runs in.

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** How alike two runs are: what was asked of the server weighs more than when. */
function likeness(run, other) {
  return (
    (run.scenario === other.scenario ? 8 : 0) +
    (same(run.parameters, other.parameters) ? 4 : 0) +
    (run.simulated === other.simulated ? 2 : 0) +
    (run.seed === other.seed ? 1 : 0)
  );
}

/** The `most` runs most like `run`, of those that are not in `taken`; of equals the newer. */
export function similar(run, runs, taken, most) {
  const ranked = runs
    .filter((other) => other.id !== run.id && !taken.includes(other.id))
    .map((other, place) => ({ other, place, score: likeness(run, other) }))
    .sort((a, b) => b.score - a.score || a.place - b.place);
  return ranked.slice(0, most).map(({ other }) => other);
}

/** The run that came before `run` and is most like it, or null; `runs` newest first. */
export function previous(run, runs) {
  const place = runs.findIndex((other) => other.id === run.id);
  return similar(run, place < 0 ? runs : runs.slice(place + 1), [], 1)[0] || null;
}
