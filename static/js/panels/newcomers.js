// "N new": requests that match and came after the list was read. The list itself stands still until somebody asks for them.

import { $, setHidden, setText } from "../dom.js";
import { get, query } from "../api.js";
import { int } from "../format.js";

const LOOK_AGAIN_MS = 4000;

/** The microsecond after an ISO instant, in ms since the epoch as the API takes it. */
function after(iso) {
  const micros = BigInt(Date.parse(`${iso.slice(0, 19)}Z`)) * 1000n + BigInt(iso.slice(20, 26)) + 1n;
  return `${micros / 1000n}.${String(micros % 1000n).padStart(3, "0")}`;
}

/** measure(filters, newest) begins to count: its row, null where there is none, undefined where it has to be asked. */
export function createNewcomers() {
  let from = null;

  async function look() {
    const now = from;
    if (document.hidden || now === null || now.since === undefined) return;
    const found = await get(`/api/requests${query({ ...now.filters, since: now.since, limit: 1 })}`).catch(() => null);
    if (now !== from || found === null || found.total === 0) return;
    setText($("#new"), `${found.total_exact ? "" : "≥ "}${int(found.total)} new · show`);
    setHidden($("#new"), false);
  }
  setInterval(look, LOOK_AGAIN_MS);

  function stop() {
    from = null;
    setHidden($("#new"), true);
  }
  async function measure(filters, newest) {
    const mark = { filters };
    from = mark;
    const last = newest === undefined ? await get(`/api/requests${query({ ...filters, limit: 1 })}`).catch(() => null) : { items: [newest] };
    if (last !== null) mark.since = last.items.length && last.items[0] ? after(last.items[0].received) : null;
  }
  return { measure, stop };
}
