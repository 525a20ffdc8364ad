// What goes wrong in the active run: failures, alike ones together, and the last lines of the generator's log. Asked for anew
// when a count of the progress has moved, and no oftener than each two seconds; the log while somebody looks at it.

import { get } from "../api.js";
import { $, el, replace, setHidden, setText, table } from "../dom.js";
import { int, NONE, requestUrl, sig3 } from "../format.js";
import { RUN_LIVE } from "../shell.js";
import { failure } from "./failure.js";

const AGAIN_MS = 2000;
const COLUMNS = [
  { label: "Message", class: "wrap", cell: (row) => `${row.status}${row.http ? ` ${row.http}` : ""}${row.error ? `: ${row.error}` : ""}` },
  { label: "Count", num: true, cell: (row) => int(row.count) },
  { label: "First at", num: true, cell: (row) => `${sig3(row.first_s)} s` },
  { label: "Last at", num: true, cell: (row) => `${sig3(row.last_s)} s` },
  { label: "One of them", cell: (row) => (row.sample ? el("a", { href: requestUrl(row.sample) }, "open") : NONE) },
];

/** Returns look(run), to be called with the active run, or the last one, or null. */
export function watchTroubles(failures, log) {
  let [asked, at] = ["", 0];
  return (run) => {
    setHidden(log, run === null);
    setHidden(failures, run === null || !(run.failed || run.refused));
    if (run === null || performance.now() - at < AGAIN_MS) return;
    const wanted = `${run.id} ${run.status} ${run.failed} ${run.refused} ${log.open} ${log.open && RUN_LIVE.includes(run.status) ? at : ""}`;
    if (wanted === asked) return;
    [asked, at] = [wanted, performance.now()];
    const path = `/api/runs/${encodeURIComponent(run.id)}`;
    if (!failures.hidden) show($(".scroll", failures), `${path}/failures`, ({ items }) => table(COLUMNS, items));
    if (log.open) show($("pre", log), `${path}/log`, ({ lines }) => lines.join("\n") || "It has said nothing.");
    setText($("small", log), run.id);
  };
}

async function show(box, path, made) {
  try {
    replace(box, made(await get(path)));
  } catch (error) {
    replace(box, failure(error, () => show(box, path, made)));
  }
}
