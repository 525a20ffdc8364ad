// The websocket: joins /live, hands snapshots, frames and runs to the store, and asks again after a hole. Draws nothing.
// Frames that arrive while an answer is awaited are let go: the answer covers them, and the server goes on from there.
// What the server's ring no longer holds is read from the records, over HTTP.

import { ApiError, get, query } from "./api.js";
import { goneOf, goneWords } from "./fields.js";
import { appendSteps, emptySteps, isHole, wanted } from "./store.js";

const ANSWER_MS = 2000; // then the question is asked anew
const REFUSED_MS = 5000;
const RECORDS_MS = 500; // the records are a moment behind the engine
const TRIES = 5;

export function connect(store) {
  const socket = window.io("/live", { transports: ["websocket"], reconnectionDelayMax: 3000 });
  let askedAt = null;

  const link = (name, why = "") => store.dispatch({ type: "link", link: name, why });
  const ask = () => {
    askedAt = performance.now();
    socket.emit("resync", { boot: store.state.boot, last: store.state.seq });
  };
  const answered = () => askedAt === null || performance.now() - askedAt > ANSWER_MS;

  socket.on("disconnect", (why) => {
    link("disconnected");
    if (why === "io server disconnect") setTimeout(() => socket.connect(), REFUSED_MS); // the library would not
  });
  socket.on("connect_error", (error) => {
    if (socket.active) return link("disconnected"); // the library tries again by itself
    link("disconnected", error.message);
    setTimeout(() => socket.connect(), REFUSED_MS);
  });
  socket.on("connect", () => {
    askedAt = null;
    link("catching_up");
    if (store.state.boot !== null) ask();
  });
  socket.on("snapshot", (data, acknowledge) => {
    askedAt = null;
    const missing = goneOf(data);
    if (missing.length) {
      socket.disconnect(); // it would say the same again
      return link("disconnected", goneWords(missing));
    }
    const span = wanted(store.state, data);
    store.dispatch({ type: "snapshot", data });
    if (span !== null) readRecords(store, span);
    acknowledge();
  });
  socket.on("frame", (data, acknowledge) => {
    const state = store.state;
    if (state.boot === null || isHole(state, data)) {
      link("catching_up");
      if (answered()) ask();
    } else {
      askedAt = null;
      store.dispatch({ type: "frame", data });
    }
    acknowledge();
  });
  socket.on("run", (data) => store.dispatch({ type: "run", data }));
  return socket;
}

/** The steps of `span` = { boot, from, to } (seqs), put before those shown. */
async function readRecords(store, span, tries = TRIES) {
  const found = emptySteps();
  try {
    for (let more = true, next = span.from; more; next = found.seq.at(-1) + 1) {
      const answer = await get(`/api/steps${query({ boot: span.boot, from_seq: next, to_seq: span.to })}`);
      appendSteps(found, answer.steps, next - 1);
      more = answer.truncated;
    }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error; // what HTTP cannot give now is asked for again
  }
  store.dispatch({ type: "older", boot: span.boot, steps: found });
  const { boot, gap } = store.state;
  if (boot === span.boot && gap !== null && gap.filled === 0 && tries > 1)
    setTimeout(() => readRecords(store, span, tries - 1), RECORDS_MS);
}
