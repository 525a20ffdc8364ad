// A store that can stand still: what is shown stays as it was, while the one behind it goes on collecting.
// Invariant: while frozen no listener is called, and the state is the same object at each look.

import { int, plural } from "./format.js";

/** freezable(store) → { state, subscribe, frozen, freeze(on) }: a store to draw from. */
export function freezable(store) {
  const listeners = new Set();
  let frozen = null;
  const tell = () => {
    for (const listener of listeners) listener(frozen || store.state);
  };
  store.subscribe(() => frozen === null && tell());
  return {
    get state() {
      return frozen || store.state;
    },
    get frozen() {
      return frozen !== null;
    },
    subscribe(listener) {
      listeners.add(listener);
    },
    /** The arrays of a state are changed in place, so a frozen one is a copy. */
    freeze(on) {
      if (on === (frozen !== null)) return;
      frozen = on ? structuredClone(store.state) : null;
      tell();
    },
  };
}

/** "frozen at step 1,204 · 312 steps since": null while it is not. */
export function frozenWords(view, store) {
  if (!view.frozen) return null;
  const [shown, newest] = [view.state.steps.step.at(-1), store.state.steps.step.at(-1)];
  if (shown === undefined) return "frozen";
  const at = `frozen at step ${int(shown)}`;
  if (view.state.boot !== store.state.boot) return `${at} · another engine since`;
  return newest > shown ? `${at} · ${plural(newest - shown, "step")} since` : at;
}
