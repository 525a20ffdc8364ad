// The websocket: joins /live, hands snapshots, frames and runs to the store, and asks again after a hole. Draws nothing.
// Frames that arrive while an answer is awaited are let go: the answer covers them, and the server goes on from there.

import { isHole } from "./store.js";

export function connect(store) {
  const socket = window.io("/live", { transports: ["websocket"], reconnectionDelayMax: 3000 });
  let asked = false;

  const link = (name) => store.dispatch({ type: "link", link: name });
  socket.on("disconnect", () => link("disconnected"));
  socket.on("connect_error", () => link("disconnected"));
  socket.on("connect", () => {
    asked = false;
    link("catching_up");
  });
  socket.on("snapshot", (data, acknowledge) => {
    asked = false;
    store.dispatch({ type: "snapshot", data });
    acknowledge();
  });
  socket.on("frame", (data, acknowledge) => {
    const state = store.state;
    if (state.boot === null || isHole(state, data)) {
      if (!asked) {
        asked = true;
        link("catching_up");
        socket.emit("resync", { boot: state.boot, last: state.seq });
      }
    } else {
      asked = false;
      store.dispatch({ type: "frame", data });
    }
    acknowledge();
  });
  socket.on("run", (data) => store.dispatch({ type: "run", data }));
  return socket;
}
