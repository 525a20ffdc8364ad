// What the page knows: the link's state, the data, the window, and what is chosen. The deeds change it, paint draws it.

import { noSteps } from "./records.js";
import { read } from "./url.js";
import { View } from "./view.js";

export function createPage(bandsCanvas, barsCanvas) {
  return {
    state: read(),
    run: null, // a row of /api/runs; null: the engine, whoever asks it
    id: null, // of what is shown: a run's, or "live"
    records: null, // null while there is nothing to draw
    steps: noSteps(),
    changes: [], // { t, text }: of the settings and of the load
    view: new View(),
    now: 0, // where open bars end
    chosen: -1, // a bar
    cursor: null, // the second under the pointer
    error: null, // why the last refresh failed
    nothing: false,
    turn: 0, // of questions: an answer to an older one is dropped
    ...{ order: [], rows: [], rowHeight: 10, pinned: 0 },
    bandsCanvas,
    barsCanvas,
  };
}
