// A recording played into a store: which message is next, when it is due, and how to get to any instant. Knows no document.
// Invariant: the store holds what a page would that heard the messages up to `position`, whichever way it got there.

export const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16];
const ROUNDED_MS = 5; // an instant from a URL has two decimals of a second

/** `recording`: { messages: [[ms, name, payload], …] }, a snapshot first. `told()` after each change of place, speed or play. */
export function createPlayer(recording, store, told) {
  const messages = recording.messages;
  const stops = messages.flatMap(([, name], index) => (name === "run" ? [] : [index])); // where a step of the playback ends
  const last = stops.length - 1;
  let position = -1;
  let speed = 1;
  let timer = null;
  let began = null; // [ms of the clock, ms of the recording] of the last start

  const at = (stop) => messages[stops[stop]][0];

  /** Backwards the snapshot comes again, and the frames after it. */
  function go(stop) {
    const wanted = Math.min(Math.max(stop, 0), last);
    const from = wanted > position && position >= 0 ? stops[position] + 1 : 0;
    if (wanted !== position)
      for (const [, type, data] of messages.slice(from, stops[wanted] + 1)) store.dispatch({ type, data });
    position = wanted;
  }

  function halt() {
    clearTimeout(timer);
    timer = began = null;
  }

  function run() {
    const now = began[1] + (performance.now() - began[0]) * speed;
    let next = position;
    while (next < last && at(next + 1) <= now) next += 1;
    go(next);
    if (position === last) halt();
    else timer = setTimeout(run, Math.max(1, (at(position + 1) - now) / speed)); // rounded, it might be due at once for ever
    told();
  }

  function start() {
    halt();
    if (position === last) go(0);
    began = [performance.now(), at(position)];
    run();
  }

  go(0);
  return {
    last,
    end: at(last),
    get position() {
      return position;
    },
    get ms() {
      return at(position);
    },
    get speed() {
      return speed;
    },
    get playing() {
      return began !== null;
    },
    play: start,
    pause() {
      halt();
      told();
    },
    /** To a stop, paused. */
    seek(stop) {
      halt();
      go(stop);
      told();
    },
    /** The last stop at or before an instant of the recording. */
    stopAt(ms) {
      const after = stops.findIndex((index) => messages[index][0] > ms + ROUNDED_MS);
      return after < 0 ? last : Math.max(0, after - 1);
    },
    /** The first stop that shows an engine step of that number or a later one. */
    stopOf(step) {
      const found = stops.findIndex((index) => messages[index][2].steps.step.at(-1) >= step);
      return found < 0 ? last : found;
    },
    /** Only one of SPEEDS. */
    setSpeed(wanted) {
      if (!SPEEDS.includes(wanted)) return;
      speed = wanted;
      if (began !== null) start();
      else told();
    },
  };
}
